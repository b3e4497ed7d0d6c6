# Functions that the scripts share. Source this file; do not run it.

# Prints a message.
say() { printf 'setup: %s\n' "$*" >&2; }

# Prints an error and exits.
fail() {
    printf 'setup: error: %s\n' "$*" >&2
    exit 1
}

# Succeeds if a command exists.
have() { command -v "$1" >/dev/null 2>&1; }

# Installs packages of Debian or Ubuntu. If this fails, $apt_why has the reason.
apt_install() {
    apt_why=""
    have apt-get || { apt_why="this system has no apt-get"; return 1; }
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        have sudo || { apt_why="apt-get needs root and there is no sudo"; return 1; }
        as_root=(sudo)
        # Without a terminal, the user cannot enter a password.
        [ -t 0 ] || as_root+=(-n)
    fi
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
    mkdir -p target/setup
    local log=target/setup/apt.log
    say "installing the packages $* (apt-get)"
    local package
    for package in "$@"; do
        # If the lists of packages are missing or old, apt-get may not know the package.
        if ! apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
            say "fetching the lists of packages (apt-get update)"
            "${as_root[@]}" "${apt[@]}" update >"$log" 2>&1 </dev/null || true
            break
        fi
    done
    if "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "$@" >>"$log" 2>&1 </dev/null; then
        return 0
    fi
    apt_why="apt-get could not install them ($(grep -E '^(E:|sudo:)' "$log" | tail -n 1 | cut -c1-200); $log)"
    return 1
}
