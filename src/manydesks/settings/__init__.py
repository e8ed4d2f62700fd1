"""The home folder, the one settings file, and the secrets kept apart from it.

Nothing is imported here: `manydesks.settings.home` must stay cheap enough for `manydesks --help`.
"""
