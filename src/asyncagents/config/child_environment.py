"""Select the environment variables of processes that agents start."""

from fnmatch import fnmatchcase

from msgspec import Struct

from asyncagents.config.config import Config, ProviderConfig
from asyncagents.config.env import Environment
from asyncagents.config.file.builtin_providers import builtin_providers
from asyncagents.config.file.redact import is_secret_name, is_secret_text
from asyncagents.config.fleet import STORE_VARIABLE
from asyncagents.config.paths import FAMILIES

# Passed even if a file refers to them with {env:…}: most programs need them.
ESSENTIAL = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
_SYSTEM = """
LANGUAGE LC_ADDRESS LC_ALL LC_COLLATE LC_CTYPE LC_IDENTIFICATION LC_MEASUREMENT LC_MESSAGES LC_MONETARY
LC_NAME LC_NUMERIC LC_PAPER LC_TELEPHONE LC_TIME TEMP TMP HOSTNAME XDG_CACHE_HOME XDG_CONFIG_DIRS
XDG_CONFIG_HOME XDG_DATA_DIRS XDG_DATA_HOME XDG_STATE_HOME CI CLICOLOR CLICOLOR_FORCE COLORTERM COLUMNS
FORCE_COLOR LINES NO_COLOR TERMINFO SOURCE_DATE_EPOCH SSL_CERT_DIR SSL_CERT_FILE CURL_CA_BUNDLE
REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS NIX_SSL_CERT_FILE GIT_SSL_CAINFO GIT_CONFIG_GLOBAL
GIT_CONFIG_NOSYSTEM GIT_CONFIG_SYSTEM GIT_AUTHOR_EMAIL GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL
GIT_COMMITTER_NAME EMAIL
"""
_TOOLCHAINS = """
LD_LIBRARY_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH
MANPATH AR CC CXX CFLAGS CPPFLAGS CXXFLAGS LDFLAGS PYTHONPATH PYTHONHOME PYTHONUTF8 PYTHONIOENCODING
PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PYENV_ROOT PYENV_VERSION CONDA_DEFAULT_ENV CONDA_EXE
CONDA_PREFIX CONDA_PYTHON_EXE CONDA_SHLVL MAMBA_EXE MAMBA_ROOT_PREFIX PIPX_BIN_DIR PIPX_HOME
PIP_CACHE_DIR POETRY_HOME UV_CACHE_DIR UV_PYTHON UV_PYTHON_INSTALL_DIR WORKON_HOME NODE_PATH NVM_BIN
NVM_DIR NVM_INC FNM_DIR FNM_MULTISHELL_PATH VOLTA_HOME PNPM_HOME N_PREFIX BUN_INSTALL DENO_DIR
DENO_INSTALL COREPACK_HOME JAVA_HOME JDK_HOME JRE_HOME M2_HOME MAVEN_HOME GRADLE_HOME GRADLE_USER_HOME
ANT_HOME SBT_HOME SDKMAN_DIR KOTLIN_HOME ANDROID_HOME ANDROID_NDK_HOME ANDROID_SDK_ROOT GOPATH GOROOT
GOBIN GOCACHE GOMODCACHE GOENV GOFLAGS GOPRIVATE GOPROXY GOSUMDB GOTOOLCHAIN GOOS GOARCH CGO_ENABLED
CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTFLAGS RUST_BACKTRACE GEM_HOME GEM_PATH
RBENV_ROOT RBENV_VERSION ASDF_DATA_DIR ASDF_DIR MISE_DATA_DIR HOMEBREW_CELLAR HOMEBREW_PREFIX
HOMEBREW_REPOSITORY NIX_PATH NIX_PROFILES DOTNET_ROOT PERL5LIB OPAMROOT OPAM_SWITCH_PREFIX STACK_ROOT
COMPOSER_HOME HEX_HOME MIX_HOME JULIA_DEPOT_PATH R_LIBS_USER FLUTTER_ROOT CUDA_HOME CUDA_PATH
CUDA_VISIBLE_DEVICES OMP_NUM_THREADS
"""
_PROXIES = frozenset({"ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"})
PASSED = ESSENTIAL.union(_SYSTEM.split(), _TOOLCHAINS.split())
# Never passed, even if the user names them: variables of asyncagents, and keys missing in providers.json.
_NEVER = frozenset({
    *(f"{family.upper()}_CONFIG_CONTENT" for family in FAMILIES),
    "ASYNCAGENTS_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "OPENCODE_SERVER_PASSWORD",
    STORE_VARIABLE,
})  # fmt: skip
# Shorter keys would occur by chance in other variables.
SHORTEST_KEY = 8


def child_environment(environment: Environment, config: Config) -> dict[str, str]:
    """Return the variables for a child process: a fixed list, and those that `pass_environment` names."""
    choice = _select(config)
    return {name: value for name, value in environment.variables.items() if choice.passes(name, value)}


def named_variables(environment: Environment, names: tuple[str, ...]) -> dict[str, str]:
    """Return variables that the user names for one program; those of asyncagents are never passed."""
    return {
        name: environment.variables[name]
        for name in names
        if name in environment.variables and name not in _NEVER
    }


def withheld_names(environment: Environment, config: Config) -> list[str]:
    """List the variables that `pass_environment` names in full but no child gets, because they hold a key."""
    choice = _select(config)
    return [
        name
        for name in dict.fromkeys(config.pass_environment)
        if name in environment.variables and choice.holds_own_key(name, environment.variables[name])
    ]


class _Selection(Struct, frozen=True, kw_only=True):
    named: tuple[str, ...]
    """Names of `pass_environment`, and patterns with `*` and `?`."""
    keys: tuple[str, ...]
    """API keys of the enabled providers."""
    key_variables: frozenset[str]
    """Variables that hold these keys."""
    possible_keys: frozenset[str]
    """Variables that may hold a key: a file or a disabled provider refers to them."""

    def passes(self, name: str, value: str) -> bool:
        if self.holds_own_key(name, value):
            return False
        if name in self.named:
            return True
        listed = name in PASSED or _is_proxy(name) or any(fnmatchcase(name, each) for each in self.named)
        return listed and not self._is_secret(name, value)

    def holds_own_key(self, name: str, value: str) -> bool:
        """Return whether the variable holds a key of asyncagents or a provider; no child process gets it."""
        return name in _NEVER or name in self.key_variables or any(key in value for key in self.keys)

    def _is_secret(self, name: str, value: str) -> bool:
        if name in self.possible_keys or is_secret_name(name) or is_secret_text(value):
            return True
        return _is_proxy(name) and "@" in value


def _is_proxy(name: str) -> bool:
    return name.upper() in _PROXIES


def _select(config: Config) -> _Selection:
    used = [provider for name, provider in config.provider.items() if _is_used(name, config)]
    known = frozenset(name for each in builtin_providers().values() for name in each.env)
    own = (name for each in config.provider.values() for name in each.env)
    return _Selection(
        named=config.pass_environment,
        keys=tuple(key for provider in used if len(key := _key(provider)) >= SHORTEST_KEY),
        key_variables=frozenset(name for provider in used if _key(provider) for name in provider.env),
        possible_keys=known.union(own, config.variables) - ESSENTIAL,
    )


def _is_used(name: str, config: Config) -> bool:
    enabled = config.enabled_providers
    return name not in config.disabled_providers and (not enabled or name in enabled)


def _key(provider: ProviderConfig) -> str:
    return provider.api_key.reveal() if provider.api_key else ""
