# What set-up leaves outside of the clone: `weft` on PATH, and a note of who was here. Sourced by
# setup.sh. What stands here is read and removed by weft/on_machine.py and `weft uninstall`.

readonly LAUNCHER_MARK="# Weft's launcher: \`make setup\` made it, \`weft uninstall\` removes it."

# Where `weft` goes: $WEFT_BIN_DIR (empty: nowhere), else where root or this user has programs.
launcher_folder() {
    if [ -n "${WEFT_BIN_DIR+set}" ]; then
        printf '%s' "$WEFT_BIN_DIR"
    elif [ "$(id -u)" = 0 ]; then
        printf /usr/local/bin
    elif [ -n "${HOME-}" ]; then
        printf '%s/.local/bin' "$HOME"
    fi
}

launcher_text() {
    local clone=${1//\'/\'\\\'\'}
    cat <<END
#!/bin/sh
$LAUNCHER_MARK
clone='$clone'
if [ ! -x "\$clone/.venv/bin/weft" ]; then
    echo "error: \$0 starts Weft from \$clone, where no Weft is set up (any more)" >&2
    echo "remedy: make setup in a clone of Weft; if you want none, remove \$0" >&2
    exit 1
fi
# No bytecode of root's in a user's tree: the user could not remove it.
if [ "\$(id -u)" = 0 ] && [ ! -O "\$clone" ]; then export PYTHONDONTWRITEBYTECODE=1; fi
exec "\$clone/.venv/bin/weft" "\$@"
END
}

is_launcher() { [ -f "$1" ] && [ ! -L "$1" ] && [ "$(sed -n 2p "$1" 2>/dev/null)" = "$LAUNCHER_MARK" ]; }

# The clone that a launcher starts.
clone_of() { sed -n "3{s/^clone='//;s/'\$//;s/'\\\\''/'/g;p}" "$1"; }

# Puts `weft` on PATH; sets SAID to what was done, empty if it stood so before. Fails, and says why,
# where it can't: nobody else's file is replaced.
SAID=""
put_launcher() {
    local folder file fresh before="" beside=""
    SAID=""
    folder=$(launcher_folder)
    [ -n "$folder" ] || { SAID="none: \$WEFT_BIN_DIR or \$HOME is empty; $VENV/bin/weft works"; return 1; }
    file=$folder/weft
    if [ -e "$file" ] || [ -L "$file" ]; then
        is_launcher "$file" ||
            { SAID="none: $file is somebody else's, and stays; $VENV/bin/weft works"; return 1; }
        before=$(clone_of "$file")
    fi
    [ "$before" != "$PWD" ] || [ "$(launcher_text "$PWD")" != "$(cat "$file")" ] || return 0
    mkdir -p "$folder" 2>/dev/null || true
    fresh=$(mktemp "$folder/.weft.XXXXXX" 2>/dev/null) ||
        { SAID="none: $folder can't be written; $VENV/bin/weft works"; return 1; }
    launcher_text "$PWD" >"$fresh" && chmod 755 "$fresh" && mv -f "$fresh" "$file"
    case ":$PATH:" in *":$folder:"*) ;; *) beside=" ($folder is not on your PATH)" ;; esac
    SAID="$file$beside"
    [ -z "$before" ] || [ "$before" = "$PWD" ] || SAID="$file starts this clone now, not $before$beside"
}

state_folder() {
    local state=${XDG_STATE_HOME:-${HOME:+$HOME/.local/state}}
    [ -z "$state" ] || printf '%s/weft' "$state"
}

# remember FILE LINE...: adds lines to a file of the state folder. What can't be written is not missed
# before somebody removes Weft.
remember() {
    local folder file=$1 line
    shift
    folder=$(state_folder)
    [ -n "$folder" ] && mkdir -p "$folder" 2>/dev/null || return 0
    for line in "$@"; do
        grep -qxF -- "$line" "$folder/$file" 2>/dev/null ||
            { printf '%s\n' "$line" >>"$folder/$file"; } 2>/dev/null || return 0
    done
}
