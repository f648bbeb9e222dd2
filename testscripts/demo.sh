#!/bin/sh
# Three contenders for one key: one runs, one is skipped, one waits.
set -eu
flockd=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
FLOCKD_BACKEND=sqlite://$dir/flockd.db
export FLOCKD_BACKEND
mkfifo "$dir/go" "$dir/running"

# shellcheck disable=SC2016 # the variables are the command's
show='echo "$1: runs, fencing token $FLOCKD_TOKEN"'

say() { printf '%s\n' "$*"; }
status() { # NAME PID: waits for it and says how it ended
	code=0
	wait "$2" || code=$?
	say "$1: exit code $code"
}

say '$ flockd run --key demo -- …            # A: the key is free'
"$flockd" run --key demo -- sh -c "$show"'; echo >"$2/running"; read -r _ <"$2/go"' sh A "$dir" &
a=$!
read -r _ <"$dir/running"

say '$ flockd run --key demo -- …            # B: taken, so it is skipped'
"$flockd" run --key demo -- sh -c "$show" sh B &
status B $!

say '$ flockd run --key demo --wait 1m -- …  # C: stands in line'
"$flockd" run --key demo --wait 1m --result-file "$dir/c.json" -- sh -c "$show" sh C &
c=$!
until grep -qs '"waiting"' "$dir/c.json"; do sleep 0.05; done

echo >"$dir/go"
status A "$a"
status C "$c"
