"""Words that say nothing about what a message is about: English and German. Shorter ones than three letters are left
out anyway."""

from __future__ import annotations

_ENGLISH = """
the and that this with from have has had having was were are been being for not but you your yours they them their
theirs his her hers him she its our ours who whom whose which what when where why how all any both each few more most
other some such than too very can could will would should shall may might must just about above after again against
because before below between down during further here into off once only out over own same then there these those
through under until while did does doing done now also still yet ever never one two even much many get got let make
made like need needs want wants please thanks thank hello hey yes okay
"""
_GERMAN = """
der die das den dem des ein eine einen einem einer eines und oder aber doch auch nicht kein keine keinen keinem keiner
ist sind war waren bin bist seid sein seine seinen seinem seiner ihr ihre ihren ihrem ihrer ich wir sie mich mir dich
dir uns euch ihm ihn ihnen mein meine meinen meinem meiner dein deine deinen deinem deiner unser unsere euer eure man
mit von vom zum zur für auf aus bei nach über unter vor durch gegen ohne bis als wie wenn weil dass daß damit dann denn
hier dort schon noch nur sehr mehr viel immer wieder jetzt heute hat habe haben hatte hatten wird werde werden wurde
wurden kann kannst können konnte muss müssen soll sollte sollen will wollen würde würden mal was wer wem wen welche
welcher welches dieser diese dieses diesem diesen jeder jede jedes alle alles etwas nichts einmal bitte danke hallo
nein zwei zwischen um im am
"""

STOP_WORDS = frozenset((_ENGLISH + _GERMAN).split())
