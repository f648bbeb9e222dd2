package cmd

const drillHow = `The drill takes KEY.drill, which has to be free, starts a contender on this host, gives it the key, and starts another one, which stands in line behind it. A contender campaigns as flockd elect does, with the settings of KEY. Its
command takes a lock of the kernel's that no two may have, says every 50 ms that it lives, and writes to a fenced file with its term, as flockd fence file does.

When the leader has written a few times it is disturbed. With --kill its flockd gets SIGKILL: the guard kills the command and gives the key back. With --freeze its flockd gets SIGSTOP, and the guard kills the command before the lease ends;
it gets SIGCONT when the other one leads. With --cut each of its calls to the store hangs, as where a cable is pulled; that is done inside of flockd, so that it works with every store, and no server and no firewall is touched. Without a fault it is asked
to resign.

When the other one leads and has written, the drill itself tries to write with the old term, and with the token of its own hold: both must be refused. Then the old leader may go on, and has to
stand in line again.

A drill needs no more rights in the store than flockd run does, and leaves there what is left of every key, its last run. Its files are in a folder of its own under TMPDIR, which is removed. HUP, INT, QUIT and TERM end it early: the contenders
stop their commands and give back what they hold. So they do if the drill is killed.`

const drillWorth = `It shows what this host, this store and this TTL do in one change of leader. It doesn't show what happens when the leader's whole host freezes or dies, when the store itself fails over, or when two hosts' clocks
run at different rates; both contenders are on one host, and have the same way to the store.`

const drillReport = `A row for each command that ran, with times since the drill began. A command has ended when the kernel has freed its lock. "gap" is the time without a command, from the end of the old leader's to the start of the next one's, beside
the TTL; "overlap" is none, or for how long two ran at once; "terms" grow or don't; "stale writes" counts the writes with the token of a term that is over, and how many were refused.`

const drillJSON = `One object. Times are seconds; instants are counted from the start of the drill. "key" is the drill's, "backend" has no secrets, "fault" is resign, kill, freeze or cut, "ttl" is the length of the lease as granted. "passed" is true if
the exit code is 0. "failures" has, where it isn't, one or more of overlap, terms, stale-write, untried (no stale write could be tried), no-change and not-followed, and "why" says each in words.

"terms" are the commands that ran, each with "contender" (a or b), "token", "from", "to" and "ended_by" (the fault, end: of the drill, or other). "fault_at" and "fault_of" say when the fault came and to whom; null if nobody led. "gap" and "change" are the time without a command
and the time from the fault to the next leader; null if none was elected. "overlaps" has for each two that ran at once "tokens" (two), "from" and "for". "terms_grow" is true or false. "stale_writes" has "tried" and "refused". "followed_after" is how long after it could the old leader stood in line again; null
if it didn't, or was killed. Fields may be added.`

func drillSections(r *roff) {
	exitSection("flockd-drill")(r)
	r.section("what happens")
	r.text(drillHow)
	r.section("what it is worth")
	r.text(drillWorth)
	r.section("report")
	r.text(drillReport)
	r.section("json")
	r.text(drillJSON)
}
