# Sourced by the scripts beside it: finds a Python, and makes and keeps the virtual environment in .venv.
#
# .venv/manydesks.stamp    what was installed; written last, so an interrupted install never counts as done
# .venv/manydesks.extras   the extras installed so far: asking for fewer never removes any
# .venv/manydesks.busy     there while pip works; if its process died, the environment is made afresh
# .venv/manydesks.log      what pip said

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
venv=$root/.venv
stamp=$venv/manydesks.stamp
extras=$venv/manydesks.extras
busy=$venv/manydesks.busy
log=$venv/manydesks.log
began=$(date +%s)

say() {
    printf '[%3d s] %s\n' "$(($(date +%s) - began))" "$*"
}

give_up() {
    printf '%s\n' "$@" >&2
    exit 1
}

# May this script install system packages? Only as root, and only with apt.
may_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

# Installs one system package; $told is all that apt said. Another apt may be at work: wait for it.
apt_install() {
    say "installing the system package $1"
    told=$(apt-get update -q 2>&1 && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -q -y --no-install-recommends "$1" 2>&1)
}

# Agents that run programs do so inside bubblewrap, on Linux. The office also starts without it, so this only says so.
prepare_sandbox() {
    [ "$(uname -s)" = Linux ] && ! command -v bwrap >/dev/null 2>&1 || return 0
    if may_apt; then
        apt_install bubblewrap && return
        printf '%s\n' "$told" >&2
    fi
    say "bwrap is missing: agents that run programs need the system package bubblewrap, please install it"
}

# Some tests look at pages in a real browser; without one they are left out, and pytest says so.
prepare_browser() {
    [ "$(uname -s)" = Linux ] && ! command -v chromium >/dev/null 2>&1 || return 0
    if may_apt; then
        apt_install chromium && return
        printf '%s\n' "$told" >&2
    fi
    say "chromium is missing: tests that need a browser are left out"
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Sets $python. A Python that can make environments wins over one that cannot; the machine's own choice comes first.
find_python() {
    python=
    for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do
        command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate" || continue
        : "${python:=$candidate}"
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            python=$candidate
            return
        fi
    done
    [ -n "$python" ] || give_up "ManyDesks needs Python 3.11 or later, and none was found on the PATH: please install one and try again."
    # Debian and Ubuntu ship the module in a package of its own.
    package=python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
    may_apt || give_up "$python cannot make virtual environments: please install its venv module ($package on Debian and Ubuntu) and try again."
    apt_install "$package" && "$python" -c 'import ensurepip, venv' \
        || give_up "$told" "$package could not be installed: please install it and try again."
}

# What the environment must have been made from: the clone's place, its Python, the asked and the pinned packages.
wanted_stamp() {
    printf '%s\n' "$root"
    "$venv/bin/python" -c 'import sys; print(sys.version)' && cksum <"$root/pyproject.toml" && cksum <"$root/constraints.txt"
}

# Is everything there that the extras in $1 ask for?
is_ready() {
    [ -f "$stamp" ] && [ -x "$venv/bin/python" ] && [ "$(wanted_stamp 2>/dev/null)" = "$(cat "$stamp")" ] || return 1
    has_extras "$1"
}

has_extras() {
    for extra in $1; do
        grep -qx "$extra" "$extras" 2>/dev/null || return 1
    done
}

# Can pip build on what is there? Not after a move (the scripts inside name the old place), not without its Python or
# pip, and not after an install that was cut off in the middle.
is_sound() {
    [ ! -e "$busy" ] || return 1
    case $(sed -n 's/^command = //p' "$venv/pyvenv.cfg" 2>/dev/null) in
        *" $venv") ;;
        *) return 1 ;;
    esac
    new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

# One script at a time works on the environment. The lock is on the clone's folder itself, through a descriptor of this
# shell: it leaves no file behind, it ends with the process, and it needs no `flock` command.
lock_clone() {
    exec 9<"$root"
    "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null && return
    say "another script is preparing .venv: waiting for it"
    "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
}

unlock_clone() {
    exec 9<&-
}

# Runs pip with the given arguments in the clone; a line every few seconds says what it is at.
run_pip() {
    : >"$busy"
    (cd "$root" && exec "$venv/bin/python" -m pip --disable-pip-version-check install --progress-bar off "$@") >"$log" 2>&1 &
    pid=$!
    # A background process of a script does not hear Ctrl-C.
    trap 'kill "$pid" 2>/dev/null; wait "$pid" || :; exit 130' INT TERM HUP
    beats=0
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        beats=$((beats + 1))
        if [ $((beats % 5)) = 0 ]; then
            say "  $(grep -E '^ *(Collecting|Downloading|Building|Installing|Using)' "$log" | tail -n 1 | cut -c 1-100)"
        fi
    done
    status=0
    wait "$pid" || status=$?
    trap - INT TERM HUP
    # An error of pip's own leaves the environment usable; a killed pip may leave half a package.
    [ "$status" -ge 128 ] || rm -f "$busy"
    return "$status"
}

# prepare "extra extra …": afterwards .venv holds ManyDesks with at least these extras.
prepare() {
    is_ready "$1" && return
    find_python
    lock_clone
    if ! is_ready "$1"; then
        all=$( { cat "$extras" 2>/dev/null; printf '%s\n' $1; } | sort -u | grep . || true)
        rm -f "$stamp"
        if ! is_sound; then
            say "making the virtual environment .venv with $("$python" -V)"
            "$python" -m venv --clear "$venv" || give_up "The virtual environment $venv could not be made; the lines above say why."
        fi
        list=$(printf '%s' "$all" | tr '\n' ',')
        say "installing ManyDesks${list:+ with $list (the first time downloads some 600 MB)}"
        run_pip -c constraints.txt -e ".${list:+[$list]}" || {
            tail -n 20 "$log" >&2
            give_up "The packages could not be installed; all that pip said is in $log."
        }
        printf '%s\n' "$all" >"$extras"
        wanted_stamp >"$stamp.new" && mv "$stamp.new" "$stamp"
        say "ready"
    fi
    unlock_clone
}
