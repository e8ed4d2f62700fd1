"""The names of Java's classes and of their functions, asked for once.

py4j asks Java what a name is each time that it is used, and Java looks for some of them through three hundred archives:
a tenth of the CPU that a small run takes.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView  # type: ignore[import-untyped]


class _Names(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaClass):
            found.__class__ = _Class
            self.__dict__[name] = found
        return found


class _Class(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):  # a field may change, a function stays
            self.__dict__[name] = found
        return found


def remember_names(jvm: JVMView) -> None:
    """From now on this view of Java keeps what it was told; classes neither come nor go while it runs."""
    jvm.__class__ = _Names
