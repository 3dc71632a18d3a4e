"""Commands of which all listed options and arguments are as harmless as those that a person has approved."""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from msgspec import Struct

from asyncagents.tools.shell.word import words_of

WordCheck: TypeAlias = Callable[[str], bool]

# Programs that only print and change no file that they name, unless an option makes the line unclear.
_READERS = words_of(
    """
    awk cat cd cksum cmp column comm cut df diff dir du echo egrep false fgrep file find fmt fold grep head
    hexdump jq ls md5sum nl od paste printf pwd readlink realpath rg sha1sum sha256sum sha512sum stat strings
    sum tac tail test tr tree true type uniq vdir wc which
    """
)
_GIT_READERS = words_of(
    """
    blame check-ignore count-objects describe diff diff-tree for-each-ref grep log ls-files ls-tree
    merge-base name-rev rev-list rev-parse shortlog show show-ref status version whatchanged
    """
)
# Readers that the answer "always" covers with any plain arguments.
COVERED_READERS = _READERS | words_of(
    """
    arch basename date dirname expand gawk groups id join mawk nproc sed seq sleep sort uname uptime whoami
    """
)
COVERED_GIT_READERS = _GIT_READERS | words_of("cherry range-diff")
# Readers that may name guarded files.
FILE_READERS = _READERS | words_of("[ b2sum base64 bat eza fd less more sha224sum sha384sum xxd zcat zgrep")
GIT_FILE_READERS = _GIT_READERS | words_of("add annotate cat-file check-attr commit help ls-remote")
# Arguments by which these readers do more than print.
_EXTRA_ACTIONS = {
    "file": re.compile(r"^(-[a-zA-Z]*C|--com)"),
    "jq": re.compile(r"env", re.IGNORECASE),
    "tree": re.compile(r"^-[a-zA-Z]*R"),
}
# Files that usually hold secrets: an approval to read other files does not cover them.
_SECRET_NAMES = (
    *("*.env", "*.env.*", ".env*", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".git"),
    *(".git-credentials", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12"),
    *("*.pfx", "*.jks", "*.keystore", "*.kdbx", "credentials*", "secrets*", ".ssh", ".gnupg", ".aws"),
)
_SAMPLES = (
    *(each.replace("*", "") for each in _SECRET_NAMES if not each.startswith("*")),
    *(each.replace("*", "x") for each in _SECRET_NAMES),
)
_HARMLESS_NAMES = ("*.env.example", "*.env.sample", "*.env.template")
_GLOB = re.compile(r"[*?\[]")
_PARTS = re.compile(r"[/:=,\s]")
# Patterns whose matches begin or end as they do, so that no match is another option.
_BOUND_GLOB = re.compile(r"(--[a-z-]+=)?\*\.\w+")
_VARIABLE = re.compile(r"\$(?!N[FR]\b)[A-Za-z_{(]")


class CommandUsage(Struct, frozen=True, kw_only=True):
    """The options and words that a command may have to be covered by its pattern."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    """Options with a value, attached or in the next word."""
    word: WordCheck = lambda word: False
    """Check of a word that is not an option."""
    value: WordCheck = lambda word: True

    def allows(self, words: Sequence[str]) -> bool:
        wants_value = False
        for word in words:
            if wants_value:
                fits, wants_value = not word.startswith("-") and self.value(word), False
            elif word.startswith("-") and word != "--":
                fits, wants_value = self._check_option(word)
            else:
                fits = word == "--" or self.word(word)
            if not fits:
                return False
        return not wants_value

    def _check_option(self, word: str) -> tuple[bool, bool]:
        """Return whether an option is known, and whether its value is the next word."""
        name, given, value = word.partition("=")
        if name in self.flags:
            return not given, False
        if name in self.valued:
            return not given or self.value(value), not given
        return self._check_letters(word[1:]) if not word.startswith("--") else (False, False)

    def _check_letters(self, letters: str) -> tuple[bool, bool]:
        """Check combined short options, the last of which may have its value attached."""
        for place, letter in enumerate(letters, 1):
            if f"-{letter}" in self.valued:
                rest = letters[place:]
                return not rest or self.value(rest), not rest
            if f"-{letter}" not in self.flags:
                return False, False
        return True, False


def is_plain_word(word: str) -> bool:
    """Return whether a word has no variable or leading wildcard, and names no file that holds secrets."""
    may_be_option = _GLOB.match(word) or (word.startswith("-") and _GLOB.search(word))
    if _VARIABLE.search(word) or (may_be_option and not _BOUND_GLOB.fullmatch(word)):
        return False
    return not any(_is_secret(part) for part in _PARTS.split(word))


def holds_secrets(path: str) -> bool:
    """Return whether a path is, or lies in, a file or folder that usually holds secrets."""
    return any(_is_secret(_GLOB.sub("_", part)) for part in path.split("/"))


def _is_secret(name: str) -> bool:
    if any(fnmatchcase(name, each) for each in _HARMLESS_NAMES):
        return False
    if _GLOB.search(name):
        return any(fnmatchcase(sample, name) for sample in _SAMPLES)
    return any(fnmatchcase(name, each) for each in _SECRET_NAMES)


def does_more_than_print(words: Sequence[str]) -> bool:
    """Return whether an argument makes a reader do more than print."""
    besides = _EXTRA_ACTIONS.get(words[0])
    return besides is not None and any(besides.search(word) for word in words[1:])


def _is_project_path(word: str) -> bool:
    """Return whether a word is a plain relative path below the project."""
    parts = word.removeprefix("./").rstrip("/").split("/")
    if word in {".", "./"}:
        return True
    if word.startswith("@"):  # for some programs, a file with more options
        return False
    return all(re.fullmatch(r"[\w@+-][\w@+.-]*", part) for part in parts) and not _FOREIGN_FOLDERS & set(
        parts
    )


def _is_test_path(word: str) -> bool:
    """Return whether a word is a folder or file of tests, or one test in it."""
    path, _, name = word.partition("::")
    last = path.rstrip("/").rpartition("/")[2]
    tests = "test" in (last if last.endswith(".py") else path)
    return _is_project_path(path) and tests and bool(re.fullmatch(r"[\w:.\[\]-]*", name))


def _is_test_name(word: str) -> bool:
    return _is_test_path(word) or bool(re.fullmatch(r"[\w.]*test[\w.]*", word))


def _is_go_package(word: str) -> bool:
    return bool(re.fullmatch(r"\.(/\w[\w.-]*)*(/\.\.\.)?", word))


def _is_name(word: str) -> bool:
    return bool(re.fullmatch(r"\w[\w:@.-]*", word))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal()


def _is_choice(word: str) -> bool:
    return bool(re.fullmatch(r"[\w.,=-]+", word))


_FOREIGN_FOLDERS = words_of("node_modules site-packages vendor third_party")
_PYTEST = CommandUsage(
    flags=words_of(
        """
        -l -q -s -v -x --co --collect-only --disable-warnings --exitfirst --failed-first --ff --last-failed
        --lf --no-header --no-summary --quiet --runxfail --showlocals --stepwise --strict-markers --sw
        --verbose
        """
    ),
    valued=words_of("-k -m -n -r --color --durations --maxfail --numprocesses --tb --timeout --verbosity"),
    word=_is_test_path,
)
_UNITTEST = CommandUsage(
    flags=words_of("-b -c -f -q -v --buffer --catch --failfast --locals --quiet --verbose"),
    valued=words_of("-k"),
    word=_is_test_name,
)
_MYPY = CommandUsage(
    flags=words_of(
        """
        -v --check-untyped-defs --ignore-missing-imports --no-color-output --no-error-summary --pretty
        --show-column-numbers --show-error-codes --strict --verbose
        """
    ),
    word=_is_project_path,
)
_RUFF_CHECK = CommandUsage(
    flags=words_of("-q -v --diff --exit-zero --no-cache --no-fix --preview --quiet --statistics --verbose"),
    valued=words_of("--ignore --output-format --select --target-version"),
    word=_is_project_path,
    value=_is_choice,
)
_CARGO = CommandUsage(
    flags=words_of(
        """
        -q -r -v --all --all-features --all-targets --benches --bins --doc --examples --exact --frozen
        --ignored --include-ignored --lib --locked --no-default-features --no-fail-fast --no-run --nocapture
        --offline --quiet --release --tests --verbose --workspace
        """
    ),
    valued=words_of(
        """
        -F -j -p --bench --bin --color --example --features --jobs --message-format --package --test
        --test-threads
        """
    ),
    word=_is_name,
    value=_is_choice,
)
_GO = CommandUsage(
    flags=words_of("-cover -failfast -json -race -short -v"),
    valued=words_of("-bench -count -p -parallel -run -tags -timeout"),
    word=_is_go_package,
)
_DOCKER_LIST = CommandUsage(
    flags=words_of("-a -q -s --all --no-trunc --quiet --size"), valued=words_of("-f -n --filter --format")
)
_GH = CommandUsage(
    flags=words_of("-c --comments"),
    valued=words_of("-A -L -l -q -s --author --jq --json --label --limit --state"),
    word=_is_number,
    value=lambda value: "env" not in value.lower(),
)
_KUBECTL = CommandUsage(
    flags=words_of("-A -w --all-namespaces --no-headers --show-labels --watch"),
    valued=words_of("-l -n -o --field-selector --namespace --output --selector --sort-by"),
    word=_is_name,
    value=_is_choice,
)
_SYSTEMCTL = CommandUsage(
    flags=words_of("-l -q --full --no-pager --quiet --user"),
    valued=words_of("-n --lines"),
    word=_is_name,
    value=_is_number,
)
_RESOURCES = words_of(
    """
    cronjobs daemonsets deploy deployments events ingress jobs namespaces nodes no ns po pods pv pvc
    replicasets services statefulsets svc
    """
)
# By the words that a pattern names; all of these run in the project's root folder.
USAGES: dict[tuple[str, ...], CommandUsage] = {
    ("pytest",): _PYTEST,
    ("py.test",): _PYTEST,
    ("python", "-m", "pytest"): _PYTEST,
    ("python", "-m", "unittest"): _UNITTEST,
    ("mypy",): _MYPY,
    ("python", "-m", "mypy"): _MYPY,
    ("ruff", "check"): _RUFF_CHECK,
    ("ruff", "format"): CommandUsage(flags=words_of("-q -v --no-cache --quiet"), word=_is_project_path),
    **{("cargo", each): _CARGO for each in ("build", "check", "clippy", "test")},
    **{("go", each): _GO for each in ("build", "test", "vet")},
    ("git", "add"): CommandUsage(
        flags=words_of("-A -n -u -v --all --dry-run --update --verbose"), word=_is_project_path
    ),
    ("git", "commit"): CommandUsage(
        flags=words_of("-a -q -s -v --all --quiet --signoff --verbose"), valued=words_of("-m --message")
    ),
    ("git", "branch"): CommandUsage(
        flags=words_of("-a -r -v --all --list --no-color --remotes --show-current --verbose"),
    ),
    ("docker", "ps"): _DOCKER_LIST,
    ("docker", "images"): _DOCKER_LIST,
    **{("gh", "pr", each): _GH for each in ("checks", "diff", "list", "status", "view")},
    **{("gh", "issue", each): _GH for each in ("list", "status", "view")},
    **{("gh", "run", each): _GH for each in ("list", "view")},
    **{("kubectl", verb, kind): _KUBECTL for verb in ("describe", "get") for kind in _RESOURCES},
    **{("systemctl", each): _SYSTEMCTL for each in ("is-active", "is-enabled", "status")},
}
# Programs that run the rest of their words as a command, in an environment of the project.
RUNNERS = frozenset((each, "run") for each in ("hatch", "pdm", "pipenv", "poetry", "rye", "uv"))
