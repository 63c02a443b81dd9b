#!/usr/bin/env bash
# Sets up what Weft needs on Debian 12. Each step does nothing where its work is already done, and
# the whole script returns at once while its stamp is fresh. Called by `make setup`.
#
# A step that fails stops the set-up with the end of its log and the remedy. A step that this
# machine makes impossible (no BPF, for example) is said to be lost, and the set-up goes on.
#
# With --asked (`make setup` itself, not a target that needs it) `weft` on PATH is looked at each
# time: the clone in which somebody asked last has it.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv STAMP=build/.setup-stamp LOGS=build/logs
readonly LOST=75   # exit code of a step (sysexits' EX_TEMPFAIL): impossible here, go on without
source setup/on_machine.sh
readonly PACKAGES=(
    mininet iproute2 ethtool tcpdump               # the emulated network
    iperf3 iputils-ping                            # its traffic
    gcc cpp libc6-dev python3-dev python3-venv     # switch core, simulator, generated pipelines
    python3-bpfcc clang                            # the host agents' eBPF
    libxdp-dev libbpf-dev                          # the RoCE endpoint's AF_XDP sockets
)

# What the set-up depends on. Where this is equal, nothing has to be looked at again.
setup_key() {
    {
        printf '%s\n' "$PWD" "$(uname -r)"
        sha256sum requirements.lock pyproject.toml setup/*.sh hostagent/kernel_headers.py \
            hostagent/bpf_probe.py hostagent/bpf/probe.bpf.c
        cat {softswitch,simulator,hostagent/rnic,hostagent/collective}/core/*.[ch] hostagent/include/*.h {softswitch,simulator}/core/build.py softswitch/core/extension.py
        ls /usr/include/xdp/xsk.h /usr/include/bpf/bpf.h 2>/dev/null || true   # built with or without
        cat mechanisms/*/core/*.[ch] mechanisms/*/build.py
        cat hostagent/{rnic,collective}/build.py hostagent/programs/*.[ch]; find hostagent/{rnic,collective}/driver -name '*.[ch]' -exec cat {} + 2>/dev/null || true
    } | sha256sum | cut -d' ' -f1
}

# Says on which other system it is tried; nothing on Debian 12. $1: the file that names the system.
say_other_system() {
    local name
    # shellcheck disable=SC1090
    name=$(. "${1:-/etc/os-release}" 2>/dev/null && printf '%s %s' "${ID-}" "${VERSION_ID-}") || true
    [ "$name" = "debian 12" ] ||
        echo "this is ${name:-an unknown system}; set-up is made for Debian 12 (docs/install.md: Docker, Ubuntu 24.04)"
}

can_be_root() { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }

# The stamp is the key, and what was lost for want of root: then a later call that can be root
# makes up for it.
is_set_up() {
    [ -r "$STAMP" ] && [ -x "$VENV/bin/weft" ] || return 1
    local key skipped=""
    read -r key skipped <"$STAMP" || true
    [ "$key" = "$(setup_key)" ] || return 1
    [ "$skipped" != needs-root ] || ! can_be_root
}

# --- the steps; each prints its log, and writes one line for the user into $NOTE ----------------

note() { printf '%s\n' "$*" >"$NOTE"; }

missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            printf '%s\n' "$package"
    done
}

# The package with the running kernel's headers, else with Debian's; nothing if there are headers.
header_package() {
    local own
    own="linux-headers-$(uname -r)"
    [ -e "/lib/modules/$(uname -r)/build" ] && return
    [ -e /sys/kernel/kheaders.tar.xz ] && return
    if apt-cache show "$own" >/dev/null 2>&1; then
        printf '%s\n' "$own"
    else
        printf 'linux-headers-%s\n' "$(dpkg --print-architecture)"
    fi
}

# Lists that are older than the archive name versions that are gone: update, then once more.
apt_install() {
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q
        --no-install-recommends -o DPkg::Lock::Timeout=120 "$@")
    if [ -z "$(find /var/lib/apt/lists -name '*Packages*' -print -quit 2>/dev/null)" ]; then
        setup/as_root.sh apt-get update -q
    fi
    setup/as_root.sh "${install[@]}" ||
        { setup/as_root.sh apt-get update -q && setup/as_root.sh "${install[@]}"; }
}

debian_packages() {
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        note "there is no apt-get; install in the way of this system: ${PACKAGES[*]}"
        return "$LOST"
    fi
    local missing
    mapfile -t missing < <(missing_packages "${PACKAGES[@]}")
    if [ "${#missing[@]}" -eq 0 ]; then
        note "all there"
        return
    fi
    if ! can_be_root; then
        echo "error: Debian packages are missing: ${missing[*]}"
        echo "error: installing them needs root, and there is no sudo on this machine"
        return 1
    fi
    apt_install "${missing[@]}"
    remember debian-packages "${missing[@]}"
    note "installed ${missing[*]}"
}

virtual_environment() {
    if ! /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "error: /usr/bin/python3 is $(/usr/bin/python3 -V 2>&1), Weft needs 3.11 or newer"
        return 1
    fi
    # Scripts in a virtual environment name its folder: one that was moved or copied is made anew.
    if [ -x "$VENV/bin/python" ] && grep -qx 'include-system-site-packages = true' \
        "$VENV/pyvenv.cfg" && head -n 1 "$VENV/bin/pip" | grep -qF "$PWD/$VENV/bin/"; then
        note "all there"
        return
    fi
    /usr/bin/python3 -m venv --clear --system-site-packages "$VENV"
    note "made with $(/usr/bin/python3 -V)"
}

python_packages() {
    local wanted
    wanted=$(cat requirements.lock pyproject.toml | sha256sum)
    if [ "$(cat "$VENV/.installed" 2>/dev/null)" = "$wanted" ] && [ -x "$VENV/bin/weft" ]; then
        note "all there"
        return
    fi
    rm -f "$VENV/.installed"
    local pip=("$VENV/bin/python" -m pip --disable-pip-version-check --no-input)
    # --no-deps: the lock names everything, so that nothing is resolved and nothing floats.
    "${pip[@]}" install --progress-bar off --no-deps -r requirements.lock
    "${pip[@]}" install --no-deps --no-build-isolation -e .
    "$VENV/bin/python" -m pip check || true   # also names Debian's own packages; for the log
    printf '%s' "$wanted" >"$VENV/.installed"
    note "$(grep -c '==' requirements.lock) packages at their locked versions"
}

kernel_headers() {
    local package
    package=$(header_package)
    if [ -n "$package" ] && [ -n "$(missing_packages "$package")" ] && can_be_root; then
        if apt_install "$package"; then
            remember debian-packages "$package"
        else
            echo "cannot install $package"
        fi
    fi
    if ! "$VENV/bin/python" -m hostagent.kernel_headers >"$NOTE"; then
        note "none: bcc cannot compile, so no host agents (rates, plane failover)"
        return "$LOST"
    fi
    cat "$NOTE"
}

ebpf_proof() {
    if ! can_be_root; then
        note "not tried, it needs root"
        echo needs-root >"$SKIPPED"
        return "$LOST"
    fi
    if ! setup/as_root.sh "$VENV/bin/python" -m hostagent.bpf_probe >"$NOTE"; then
        note "$(cat "$NOTE"); so no host agents (rates, plane failover)"
        return "$LOST"
    fi
    cat "$NOTE"
}

switch_core() {
    "$VENV/bin/python" -m softswitch.core.build
    "$VENV/bin/python" -m simulator.core.build
    "$VENV/bin/python" -m hostagent.rnic.build
    "$VENV/bin/python" -m hostagent.collective.build
    local build
    for build in mechanisms/*/build.py; do
        "$VENV/bin/python" -m "mechanisms.$(basename "$(dirname "$build")").build"
    done
    note "built"
}

on_path() {
    remember clones "$PWD"
    put_launcher || { note "$SAID"; return "$LOST"; }
    note "${SAID:-$(launcher_folder)/weft}"
}

# --- running them -------------------------------------------------------------------------------

STEP=0
readonly STEPS=7

# step TITLE FUNCTION REMEDY: one progress line; the log goes to build/logs.
step() {
    local title=$1 function=$2 remedy=$3 log status started=$SECONDS
    STEP=$((STEP + 1))
    log="$LOGS/setup-$function.log"
    : >"$NOTE"
    printf '[%d/%d] %-20s ' "$STEP" "$STEPS" "$title"
    # Not in a condition: bash would ignore `set -e` inside the step.
    set +e
    (
        set -e
        "$function"
    ) >"$log" 2>&1 </dev/null
    status=$?
    set -e
    case "$status" in
        0) printf '%s (%d s)\n' "$(cat "$NOTE")" $((SECONDS - started)) ;;
        "$LOST") printf 'LOST: %s (%s)\n' "$(cat "$NOTE")" "$log" ;;
        *)
            printf 'FAILED\n\n' >&2
            tail -n 15 "$log" | sed 's/^/    /' >&2
            printf '\nerror: set-up stopped at "%s" (whole log: %s)\n' "$title" "$log" >&2
            printf 'remedy: %s\n' "$remedy" >&2
            exit 1
            ;;
    esac
}

# A root run in a user's tree must leave nothing that the user cannot write.
give_back() {
    local owner
    owner=$(stat -c %u .)
    if [ "$(id -u)" = 0 ] && [ "$owner" != 0 ]; then
        chown -Rh "$owner:$(stat -c %g .)" build "$VENV" ./*.egg-info 2>/dev/null || true
    fi
}

main() {
    if is_set_up; then
        if [ "${1-}" = --asked ]; then
            remember clones "$PWD"
            put_launcher || true
            [ -z "$SAID" ] || echo "weft on PATH: $SAID"
        fi
        return
    fi
    if ! mkdir -p "$LOGS" 2>/dev/null || [ ! -w build ]; then
        echo "error: $PWD is not writable by $(id -un); set-up keeps .venv and build there" >&2
        echo "remedy: clone the repository as $(id -un), or run this as $(stat -c %U .)" >&2
        return 1
    fi
    exec 9>build/.setup-lock
    flock --nonblock 9 || { echo "another set-up is at it; waiting"; flock 9; }
    is_set_up && return   # another call was at it meanwhile

    NOTE=$(mktemp) SKIPPED=$(mktemp)
    trap 'rm -f "$NOTE" "$SKIPPED"; give_back' EXIT
    trap 'printf "\nset-up interrupted; the same command goes on from here\n" >&2; exit 130' INT TERM
    rm -f "$STAMP"

    say_other_system
    step "Debian packages" debian_packages \
        "it needs root or sudo, a network, and a Debian mirror in /etc/apt"
    step "Python environment" virtual_environment "apt-get install python3-venv, on Debian 12 or newer"
    step "Python packages" python_packages \
        "is a package index reachable? try: $VENV/bin/pip download rich -d /tmp"
    step "Kernel headers" kernel_headers "apt-get install linux-headers-$(dpkg --print-architecture)"
    step "eBPF proof" ebpf_proof "see \`make doctor\`"
    step "Switch core" switch_core "apt-get install gcc libc6-dev python3-dev; then \`make setup\`"

    step "weft on PATH" on_path "see \`make doctor\`"

    printf '%s %s\n' "$(setup_key)" "$(cat "$SKIPPED")" >"$STAMP"
}

# The tests source this file to try single functions.
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    main "$@"
fi
