"""The real `claude`, driven by hand over its own JSON lines, as a small script would do it."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path


class ByHand:
    """One process with a folder of its own; `turn` starts it if need be."""

    def __init__(self, claude: Path, model_url: str) -> None:
        self._claude = claude
        self._model_url = model_url
        self._folder = tempfile.TemporaryDirectory(prefix="md")
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()
        self._folder.cleanup()

    def turn(self) -> float:
        """Seconds from before the prompt, and before the start of the process, to the answer."""
        begun = time.perf_counter()
        if self._process is None:
            self._process = self._start()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": "hello"}}) + "\n")
        stdin.flush()
        for line in stdout:
            if json.loads(line)["type"] == "result":
                return time.perf_counter() - begun
        raise AssertionError("claude ended before its result")

    def _start(self) -> subprocess.Popen[str]:
        environ = {
            "PATH": os.defpath,
            "HOME": self._folder.name,
            "ANTHROPIC_BASE_URL": self._model_url,
            "ANTHROPIC_API_KEY": "sk-hand",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        command = [str(self._claude), "-p", "--input-format", "stream-json", "--output-format", "stream-json"]
        return subprocess.Popen(
            [*command, "--verbose"],
            cwd=self._folder.name,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
