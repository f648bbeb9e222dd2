#!/bin/sh
# A holder is frozen until its lease has passed and another has written. Then it wakes in
# the middle of its work, and writes as well: what is fenced refuses it, what isn't takes it.
# The exit code is 0 only if that is so.
set -eu
flockd=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
dir=$(mktemp -d)
pids=
trap 'kill -KILL $pids 2>/dev/null || :; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
export FLOCKD_BACKEND="sqlite://$dir/flockd.db" flockd
cd "$dir"
mkfifo A B go

say() { printf '%s\n' "$*"; }
fail() {
	say "demo-zombie: $*" >&2
	exit 1
}

sqlite3 -batch -bail app.db <<'END'
CREATE TABLE plain (id INTEGER PRIMARY KEY, report TEXT);
CREATE TABLE fenced (id INTEGER PRIMARY KEY, report TEXT, token INTEGER NOT NULL);
CREATE TRIGGER fence BEFORE UPDATE ON fenced WHEN new.token < old.token
BEGIN SELECT RAISE(ROLLBACK, 'stale token'); END;
INSERT INTO plain VALUES (1, '');
INSERT INTO fenced VALUES (1, '', 0);
END

# What both holders do. The first argument is who it is, the second what it waits for. Its
# output is for this script: a line when it has begun, and one when it is done.
cat >report.sh <<'END'
say() { printf '%s: %s\n' "$who" "$*" >&2; }
try() { # WHAT COMMAND...
	what=$1
	shift
	code=0
	"$@" 2>said || code=$?
	if [ "$code" = 0 ]; then say "$what: written"; else say "$what: REFUSED, exit code $code: $(cat said)"; fi
	echo "$code" >"$who $what"
}
plain_file() { echo "of $who" >plain.txt; }
fenced_file() { echo "of $who" | "$flockd" fence file fenced.txt; }
sql() { sqlite3 -batch -bail app.db "$1"; }
plain_table() { sql "UPDATE plain SET report = 'of $who'"; }
fenced_table() { sql "UPDATE fenced SET report = 'of $who', token = $FLOCKD_TOKEN"; }

who=$1
say "is at work, with token $FLOCKD_TOKEN"
echo $$
read -r _ <"$2"
try "plain file" plain_file
try "fenced file" fenced_file
try "plain table" plain_table
try "fenced table" fenced_table
echo over
END

children() { # PID
	grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | tr -dc '0-9\n'
}

say '$ flockd run --key report --ttl 2s -- ./report.sh     # A'
"$flockd" run --key report --ttl 2s -- sh report.sh A go >A &
a=$!
pids=$a
exec 3<A
read -r command <&3 || fail "A hasn't begun"
until guard=$(children "$a" | grep -vx "$command"); do
	kill -0 "$a" || fail "A has ended"
	sleep 0.05
done
pids="$a $guard $command" # in this order: flockd would start another for a guard that is stopped
# shellcheck disable=SC2086 # several numbers, several words
kill -STOP $pids
say "-- A, its flockd and its guard are frozen; its lease passes"

say '$ flockd run --key report --wait 1m -- ./report.sh    # B'
"$flockd" run --key report --wait 1m -- sh report.sh B /dev/null >B &
b=$!
pids="$pids $b"
exec 4<B
read -r _ <&4 || fail "B hasn't begun"
read -r _ <&4 || fail "B didn't come to its end"
wait "$b" || fail "B ended with $?"

say "-- A wakes, and goes on where it was"
kill -CONT "$command"
echo >go &
pids="$pids $!"
read -r _ <&3 || fail "A didn't come to its end"
kill -CONT "$guard" "$a"
code=0
wait "$a" || code=$?
pids=
say "A: exit code $code"
[ "$code" = 79 ] || fail "A ended with $code, not with 79"

verdict() { # WHAT CONTENT EXPECTED, which begins with whose it is
	got="$2, A was told $(cat "A $1")"
	# shellcheck disable=SC2254 # it is a pattern
	case $got in $3) ;; *) fail "$1: $got" ;; esac
	say "$1: $got"
}
say "-- What is there in the end"
verdict "plain file" "$(cat plain.txt)" "of A, * 0"
verdict "fenced file" "$(cat fenced.txt)" "of B, * 80"
verdict "plain table" "$(sqlite3 app.db 'SELECT report FROM plain')" "of A, * 0"
verdict "fenced table" "$(sqlite3 app.db 'SELECT report FROM fenced')" "of B, * [1-9]*"
say "B's report is lost where nothing fences it."
