"""Jobs of CI, run as GitHub and GitLab run them: each step with its shell, folder, variables and condition.

Steps that fetch (`actions/checkout` and the like) are passed over: the folder is there already. Artifacts are kept
beside it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


@dataclass
class Done:
    """A step that ran.

    Attributes:
        name: of the step, or else its first line.
        code: with which it ended.
        said: standard output and error.
    """

    name: str
    code: int
    said: str


@dataclass
class GitHubJob:
    """The steps of a job or of a composite action.

    Attributes:
        folder: the workspace; the runner's own files are beside it.
        variables: of the environment, and those of the job; steps add theirs.
        inputs: of an action.
        contexts: values of further expressions, such as `github.token`.
    """

    folder: Path
    variables: dict[str, str]
    inputs: Mapping[str, str] = field(default_factory=dict)
    contexts: Mapping[str, str] = field(default_factory=dict)
    done: list[Done] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The runner empties its folder for temporary files before each job."""
        temporary = self.folder.parent / "temporary"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        self.variables = {**self.variables, "RUNNER_TEMP": str(temporary)}
        self.contexts = {**self.contexts, "runner.temp": str(temporary)}

    @property
    def summary(self) -> Path:
        """The job's summary."""
        return self.folder.parent / "summary.md"

    @property
    def failed(self) -> bool:
        """Whether a step has failed."""
        return any(step.code for step in self.done)

    def run(self, steps: Sequence[Mapping[str, Any]], folder: str = ".") -> None:
        """Run steps in order; after one that failed, those alone that always run."""
        for step in steps:
            condition = str(step.get("if", ""))
            if (self.failed and "always()" not in condition) or not self._holds(condition):
                continue
            if "run" not in step:
                self._hand_over(step)
                continue
            output, later = (self.folder.parent / f"{name}-{len(self.done)}" for name in ("output", "env"))
            for file in (output, later):
                file.write_text("")
            own = {name: self.expand(str(value)) for name, value in step.get("env", {}).items()}
            place = self.folder / self.expand(step.get("working-directory", folder))
            script = self.folder.parent / f"step-{len(self.done)}.sh"
            script.write_text(self.expand(step["run"]))
            # A step that names bash gets pipefail, too.
            strict = ["--noprofile", "--norc", "-e", "-o", "pipefail"] if step.get("shell") == "bash" else ["-e"]
            files = {"GITHUB_OUTPUT": output, "GITHUB_ENV": later, "GITHUB_STEP_SUMMARY": self.summary}
            ran = subprocess.run(
                ["bash", *strict, str(script)],
                cwd=place,
                env={**self.variables, **{name: str(path) for name, path in files.items()}, **own},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=900,
            )
            self.done.append(Done(step.get("name", step["run"].splitlines()[0]), ran.returncode, ran.stdout))
            for file, known in ((output, self.outputs), (later, self.variables)):
                known |= dict(line.split("=", 1) for line in file.read_text().splitlines())

    def _hand_over(self, step: Mapping[str, Any]) -> None:
        """Keep a file for another job, or fetch what one has kept."""
        action = step["uses"].partition("@")[0]
        if action not in {"actions/upload-artifact", "actions/download-artifact"}:
            return
        given = {name: self.expand(value) for name, value in step["with"].items()}
        kept = self.folder.parent / "artifacts" / given["name"]
        if action == "actions/download-artifact":
            shutil.copytree(kept, self.folder / given.get("path", "."), dirs_exist_ok=True)
        elif Path(given["path"]).exists():
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(given["path"], kept)

    def expand(self, text: str) -> str:
        """A text with the values of its expressions; one that is not known is an error."""
        return _EXPRESSION.sub(lambda match: self._value(match[1].strip()), text)

    def _value(self, name: str) -> str:
        if name.startswith("inputs."):
            return self.inputs[name.removeprefix("inputs.")]
        return self.contexts[name]

    def _holds(self, condition: str) -> bool:
        terms = [term.strip() for term in condition.split("&&") if term.strip() and "always()" not in term]
        for term in terms:
            match = re.fullmatch(r"(inputs\.[\w-]+) ([!=]=) ''", term)
            assert match, f"a condition that this runner does not know: {term}"
            if (self._value(match[1]) == "") != (match[2] == "=="):
                return False
        return True


def run_action(action: Mapping[str, Any], job: GitHubJob) -> GitHubJob:
    """Run a composite action; inputs that are not given have their defaults, and those that it does not have fail."""
    assert job.inputs.keys() <= action["inputs"].keys()
    missing = {name for name, given in action["inputs"].items() if given.get("required")} - job.inputs.keys()
    assert not missing, missing
    job.inputs = {name: str(given.get("default", "")) for name, given in action["inputs"].items()} | dict(job.inputs)
    job.run(action["runs"]["steps"])
    return job


def run_gitlab(job: Mapping[str, Any], folder: Path, variables: Mapping[str, str]) -> list[Done]:
    """Run the script of a job of GitLab, in one shell, which ends at the first line that fails.

    A job gets the token for comments only in the environment that the variable is scoped to.
    """
    known = {**variables, "CI_PROJECT_DIR": str(folder)}
    if job.get("environment", {}).get("name") != "bench-comment":
        known.pop("COMMENT_TOKEN", None)
    for name, value in job.get("variables", {}).items():
        known[name] = re.sub(r"\$(\w+)", lambda match: known[match[1]], str(value))
    lines = job["script"] if isinstance(job["script"], list) else [job["script"]]
    ran = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        env=known,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    return [Done("script", ran.returncode, ran.stdout)]
