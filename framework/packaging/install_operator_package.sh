#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Head of the operator package: a tar archive follows. Installs the vendor folder "asa" as a whole or not at all.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"  # as `sh package.run`
set -euo pipefail
version='@VERSION@' soc='@SOC@' machine='@MACHINE@' digest='@SHA256@'
offset=$((10#@OFFSET@))
vendor=asa

usage() {
    cat <<TEXT
ascend_sparse_attention operator package $version for $soc ($machine)
Usage: $(basename "$0") [--quiet] [--install-path=DIR] | --extract=DIR | --check | --version | --help
  (nothing)           install into \$ASCEND_OPP_PATH/vendors/$vendor
  --install-path=DIR  install into DIR/vendors/$vendor; DIR is an absolute path
  --quiet             say nothing but errors
  --extract=DIR       unpack into DIR, which must not exist, and install nothing
  --check             verify the archive's checksum
Installing again replaces what is there. Exit code 0: installed whole; anything else: nothing was changed.
TEXT
}

fail() {
    printf 'operator package %s: %s\n' "$version" "$*" >&2
    exit 1
}

quiet=0 target="" extract="" check_only=0
for argument in "$@"; do
    case "$argument" in
        --quiet) quiet=1 ;;
        --install-path=*) target=${argument#--install-path=}; [ -n "$target" ] || fail "--install-path: expected a path, got none" ;;
        --extract=*) extract=${argument#--extract=}; [ -n "$extract" ] || fail "--extract: expected a path, got none" ;;
        --check) check_only=1 ;;
        --version) echo "$version"; exit 0 ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown argument $argument" ;;
    esac
done
say() { [ $quiet = 1 ] || printf '%s\n' "$*"; }

[ -f "$0" ] || fail "expected to be run as a file (bash package.run), got its text from a pipe"
payload() { tail -c "+$((offset + 1))" "$0"; }
got=$(payload | sha256sum | cut -d' ' -f1)
[ "$got" = "$digest" ] || fail "damaged: expected SHA-256 $digest of the archive in it, got $got"
if [ $check_only = 1 ]; then
    say "intact"
    exit 0
fi
if [ -n "$extract" ]; then
    [ ! -e "$extract" ] || fail "--extract: expected a folder that does not exist, got $extract"
    mkdir -p "$extract"
    payload | tar -xzf - -C "$extract"
    say "unpacked into $extract"
    exit 0
fi

source="--install-path"
if [ -z "$target" ]; then
    source=ASCEND_OPP_PATH target=${ASCEND_OPP_PATH:-}
    [ -n "$target" ] || fail "where to? ASCEND_OPP_PATH is not set (source CANN's set_env.sh, or give --install-path=DIR)"
fi
case "$target" in
    *[:$'\n']*) fail "$source: expected a path without ':' and line breaks, which no path variable can hold, got $target" ;;
    /*) ;;
    *) fail "$source: expected an absolute path, got $target" ;;
esac
# What CANN names must be there; only a folder that was asked for is made.
[ $source != ASCEND_OPP_PATH ] || [ -d "$target" ] || fail "ASCEND_OPP_PATH: expected a folder, got $target, which is none"
[ "$(uname -m)" = "$machine" ] || fail "built for $machine, this machine is $(uname -m)"
vendors="$target/vendors"
mkdir -p "$vendors" 2>/dev/null || fail "cannot make $vendors"
[ -w "$vendors" ] || fail "no right to write in $vendors"
if [ -L "$vendors/$vendor" ] || { [ -e "$vendors/$vendor" ] && [ ! -d "$vendors/$vendor" ]; }; then
    fail "expected a folder of an earlier installation or nothing at $vendors/$vendor, got a link or file"
fi
# Two installations at once take turns.
exec 9< "$vendors"
if command -v flock > /dev/null; then flock 9; fi

# Everything is put beside its place and then renamed: an interrupted or failed installation leaves the old one.
new="$vendors/.$vendor.new.$$" old="$vendors/.$vendor.old.$$"
config="$vendors/config.ini"
if [ -L "$config" ]; then config=$(readlink -f "$config") || fail "$vendors/config.ini leads nowhere"; fi
order="$(dirname "$config")/.config.ini.$$"
undo() {
    rm -rf "$new" "$order"
    if [ -d "$old" ]; then
        if [ -d "$vendors/$vendor" ]; then rm -rf "$old"; else mv "$old" "$vendors/$vendor"; fi
    fi
}
trap undo EXIT
mkdir "$new" || fail "cannot make $new"
payload | tar -xzf - -C "$new" --no-same-owner || fail "cannot unpack into $new"
[ -f "$new/version.info" ] || fail "expected version.info in the archive, got none"
mkdir -p "$new/bin"
{
    echo "# SPDX-License-Identifier: Apache-2.0"
    printf 'export ASCEND_CUSTOM_OPP_PATH=%q${ASCEND_CUSTOM_OPP_PATH:+:${ASCEND_CUSTOM_OPP_PATH}}\n' "$vendors/$vendor"
    printf 'export LD_LIBRARY_PATH=%q${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}\n' "$vendors/$vendor/op_api/lib"
} > "$new/bin/set_env.bash"

# CANN asks the vendors in the order of load_priority; the others keep theirs.
others="" priority='^[[:space:]]*load_priority[[:space:]]*='
if [ -f "$config" ]; then
    others=$(sed -n "s/$priority//p" "$config" | head -n 1 | tr -d '[:blank:]\r' | tr ',' '\n' |
        { grep -vx -e "$vendor" -e "" || true; } | paste -sd, -)
    cp -p "$config" "$order" || fail "cannot write $order"  # for its owner and mode
    chmod u+w "$order"
fi
{
    echo "load_priority=$vendor${others:+,$others}"
    if [ -f "$config" ]; then grep -v "$priority" "$config" || true; fi
} > "$order" || fail "cannot write $order"
if [ -f "$config" ]; then chmod --reference="$config" "$order"; fi

replaced=""
if [ -e "$vendors/$vendor" ]; then
    replaced=$(sed -n 's/^asa_version=//p' "$vendors/$vendor/version.info" 2>/dev/null || true)
    replaced=" (in place of version ${replaced:-unknown})"
    mv -T "$vendors/$vendor" "$old" || fail "cannot move $vendors/$vendor aside"
fi
mv -T "$new" "$vendors/$vendor" || fail "cannot put the package into $vendors/$vendor"
mv -T "$order" "$config" || { rm -rf "${vendors:?}/$vendor"; fail "cannot write $config"; }

say "installed version $version for $soc into $vendors/$vendor$replaced"
say "before use: source $vendors/$vendor/bin/set_env.bash"
exit 0
# The archive starts behind this line.
