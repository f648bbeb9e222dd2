package cmd

// exitSection writes the exit codes of a page.
func exitSection(page string) func(*roff) {
	return func(r *roff) {
		r.section("exit status")
		for _, c := range exitTables[page] {
			r.item("`"+c[0]+"`", capital(c[1])+".")
		}
	}
}

const statusOutput = `Times are the store's, in the local time zone. A renewal is seen as "renewed" and "expires"; a claim that isn't renewed ends by itself.
An ID may be shortened for flockd break --id.

With --watch and without a terminal, the whole is printed again when something has happened; a renewal is nothing
of this kind. After each look flockd pauses for a second, and nine times as long as the look took, which bounds the load on a store with many keys. A store that
gives no answer for a while is named, and asked again. A signal ends it: Ctrl-C with 130. So does, within
about a second, that nobody reads its output any more.

Nothing of this makes a store: of an SQLite file that isn't there no key has been used. Who may only read such a file, and what
SQLite keeps beside it (the same name with -wal and -shm), can use all but flockd break, flockd once forget and flockd fence admit and reset. A store that gives no answer is
asked again for 5 seconds.`

const statusAge = `--max-age is for Nagios and its like, whose exit codes and words it uses. The age counts from the end of the last
success, by the store's clock. A store that can't be reached or refuses is UNKNOWN
and 3 too, on standard output. The line names the store, and says how the last run ended where that is not the last success: OK may hide a failure since. Wrong flags
or a wrong configuration are 64 all the same.`

const keyJSON = `Each field is always there, and null where it means nothing or the store can't tell. Times are RFC 3339 in UTC. Control characters are dropped from what others wrote.
Fields may be added.

An object has "key", "state" (held, cooling, waiting or free; waiting: nobody holds it, and the next in line hasn't taken its turn yet), "as_of" (the store's clock),
"holders" and "waiters" (claims; first in line first; a holder may be cooling), "last_run" and "last_success" (runs).

A claim has "id", "state" (holding, cooling, waiting), "mode" (exclusive, shared, slots), "slots" and "slot" (counted from 0; null in other modes), "token" (null while waiting), "owner",
"asked", "granted", "renewed", "expires", and "notice", null unless somebody has asked it to stop.

A run has "owner", "token", "start", "end", "class" (finished, lost, max-runtime, or broken where flockd break --force took the key), "exit" (null if broken or killed), and "notice": who had asked
it to stop.

An owner has "user", "host", "pid", "command" (never its arguments) and "note" (may be empty). A notice has "kind" (break, resign, supersede), "by" (an owner), "reason" and "force".`

func statusSections(r *roff) {
	exitSection("flockd-status")(r)
	r.section("output")
	r.text(statusOutput)
	r.section("monitoring")
	r.text(statusAge)
	r.section("json")
	r.text(keyJSON)
	r.text(`The status of a key also has "backend", without secrets, and "backend_from", where that was set: --backend, FLOCKD_BACKEND, FILE:LINE or default. With --watch each object is one line, printed
when something has happened.`)
	r.text(`Without KEY the object has "backend", "backend_from", "caveat" (why this store is worth less than others of its kind), the number of "keys", how many are "held", "cooling", "waiting" and "free", and
"waiters", all those in line.`)
}

func listSections(r *roff) {
	exitSection("flockd-list")(r)
	r.section("output")
	r.text(`HOLDER is the first holder, and how many more there are; SINCE is how long it has held the key, WAITING how many are in line, and LAST RUN how the last one came out and how long ago.
A row whose cells are long isn't aligned. --watch is as in flockd-status(1); with --json it prints the keys to which something has happened.`)
	r.section("json")
	r.text("Each key is one line, an object as flockd-status(1) describes it, without the backend. Lines can be read as they come, and stay whole where the store fails halfway. No key is no line.")
}

func breakSections(r *roff) {
	exitSection("flockd-break")(r)
	r.section("what happens")
	r.text(`The holder's flockd hears of it, stops its command (TERM, then KILL), gives the key back and exits with 79. The key's last run says who asked and why, until the next run ends. A holder that is frozen or cut off hears nothing, and
its lease ends by itself.

A waiter that is asked leaves the line, and exits with 75.

With --force the claim is gone at once, and the run is recorded as broken. Its holder is told as of a loss of the lease, as soon as it would be asked; its fencing token is smaller than those of later runs. A key that is cooling after --min-hold is freed too.
--force doesn't go with --wait: the key is free at once, and nobody can tell when the command has ended.

Where several hold the key, shared or in slots, --id names one, and --all takes them all. --wait doesn't wait for a --min-hold.`)
}

func leaderSections(r *roff) {
	exitSection("flockd-leader")(r)
	r.section("output")
	r.text(`The leader is whoever holds KEY alone: keys held by --shared or --slots runs have none, and neither has one that cools after --min-hold, or whose next in line hasn't taken its turn yet.
The term is shown by its number, the fencing token. Where the leader has been asked to stop, the line says by whom. Those who wait in line are the candidates.

With --watch and without a terminal a line is printed for each change of leader, be it to none; a renewal, a resignation that is asked for and a change in the line are nothing of this kind. It
looks as in flockd-status(1), about once a second: a term that begins and ends between two looks isn't seen. With --wait a store that gives no answer is asked again for that long.

What is printed was so at that moment. A program that writes as the leader proves it at each write: see flockd-check(1) and flockd-fence(1).`)
	r.section("json")
	r.text(`The object has "key", "backend", "backend_from", "state", "as_of" and "last_run" as in flockd-status(1), "leader", null where there is none, and "candidates", the waiters there. With --watch each object is one line, printed
with each change of leader.

A leader has "id", "term" (the fencing token), "owner", "since" (when the term began), "renewed", "expires" and "notice", null unless somebody has asked it to stop.`)
}

func resignSections(r *roff) {
	exitSection("flockd-resign")(r)
	r.section("what happens")
	r.text(`The leader's flockd hears of it, stops its command (TERM, then KILL), and gives the key back once nothing of the command is left. The first in line leads next; where nobody else waits, which a warning says,
the same one is likely to lead again, in a new term. The key's last run says who asked and why, until the next run ends. A leader that is frozen or cut off hears nothing, and
its lease ends by itself; flockd-break(1) has --force for it.

Where the command was run by flockd run, that exits with 79. Holds by --shared and --slots aren't led: see flockd-break(1).

Who leads next can't be chosen.`)
}

const checkHow = `Reading FLOCKD_TOKEN, or the clock, tells a command nothing: it may have been frozen, and the key granted to another. A check renews
the lease and goes by the store's word, so that at its end the key can't be granted to anybody for as long as it says. A command that is frozen between the check and its
write is too late all the same: only the storage can refuse it, by its fencing token.

Inside the command the flockd that runs it answers, through a socket that has a name but no file. That needs no secret of the store, and the runs of one flockd
inside of another are told apart by FLOCKD_ID. Many that ask at a time share a renewal. A flockd that is there and doesn't answer within 5 seconds, as one that is stopped, is 69: the
store isn't asked in its stead.

Where no such flockd is found, as in a container, behind ssh or after unshare --net, the store is asked that --backend, FLOCKD_BACKEND or the configuration names. docker, sudo and ssh drop the variables: hand all four on, as by
docker run -e FLOCKD_KEY -e FLOCKD_ID -e FLOCKD_TOKEN -e FLOCKD_BACKEND, or by sudo --preserve-env=FLOCKD_KEY,FLOCKD_ID,FLOCKD_TOKEN,FLOCKD_BACKEND; docs/fencing.md of the source has it for ssh. Where FLOCKD_BACKEND has *** for a secret, the store has to be named there anew. A check on the way through the store is a renewal as well: for as long as somebody checks, the key stays taken, be
it that flockd itself is gone.

The command is to stop when somebody has asked for the key (flockd break), after --max-runtime, and when no renewal has succeeded in time. What it leaves is told the same when it has
ended, and flockd gives the key back. After --on-lost warn a command whose lease is renewed again
holds the key still, and is told so, though flockd exits with 79.

What is left is counted from before the question, by a clock that nobody can set, less 1 % for clocks that don't run alike. Every check renews, so that about the whole TTL is left, less what the answer takes:
some milliseconds as a rule, and 5 seconds at most. So let the run's --ttl be 6 seconds and 2 % longer than --min-remaining. One that the TTL can never leave is an error that names the TTL which does. Where
the answer took too long the hold stands, and the exit code is 69 all the same.`

const checkVariables = "`FLOCKD_KEY`, `FLOCKD_ID`, `FLOCKD_TOKEN`"

func checkSections(r *roff) {
	exitSection("flockd-check")(r)
	r.section("how it is proven")
	r.text(checkHow)
	r.section("environment")
	r.item(checkVariables, "Which hold is meant, as flockd run sets them for its command.")
	r.item("`FLOCKD_BACKEND`", "The store, where flockd doesn't answer and --backend doesn't name it.")
	r.section("json")
	r.text(`The object has "key", "id" and "token" of the hold, "state" (held, lost, stopping: the command is to stop, or unknown), "remaining" and "ttl" in seconds (null unless held), "why" (null
if held, unless less than --min-remaining is left), and "answered_by": flockd, store, or null where nobody did. It is printed with each of the exit codes 0, 79 and 69; go by these: with 69 a hold that is "held" is too short.`)
}

func onceListSections(r *roff) {
	exitSection("flockd-once-list")(r)
	r.section("json")
	r.text(`Each run is one line, an object with "key", "run", "at" and "forgets" (RFC 3339 in UTC; null: kept for ever), "token" and "owner", as in flockd-status(1).`)
}

const fenceAdmit = `The store answers in one step: of two writers that ask at the same time, the one with the smaller token is refused, or comes first. An answer that gets
lost is asked for again, for 5 seconds; with 69 the token may be admitted all the same.

Between the answer and the write there is time, in which a writer may be frozen, and another one be admitted and write. Where the storage
can compare the token itself, in the very step of the write, let it; docs/fencing.md of the source has recipes.

Only tokens of one key in one store compare, and nothing sees whose token it is: one that is too large shuts out every writer after it, until flockd fence reset --force. One --slots hold doesn't fence another one: give each slot a RESOURCE of its own, with FLOCKD_SLOT in its name. Those of --shared don't fence each other either.

The store has to be named, by --backend, FLOCKD_BACKEND (as flockd run does it for its command) or the configuration, and somebody has to have used it: another store knows of no larger token. Both are 69. A register in a store
that no run uses is begun by flockd fence reset RESOURCE --to N. Redis and etcd have nothing that would have to be made, so that a wrong number of the database or ?prefix= is another register there.

A name of a RESOURCE has nothing to do with a key of that name.`

func fenceAdmitSections(r *roff) {
	exitSection("flockd-fence-admit")(r)
	r.section("what it is worth")
	r.text(fenceAdmit)
	r.section("environment")
	r.item("`FLOCKD_TOKEN`", "The token, if --token doesn't give it: a decimal number from 1 to 2^53 - 1. Set by flockd run for its command; sudo, ssh and docker drop it unless it is handed on. A command that runs unlocked has none.")
}

func fenceShowSections(r *roff) {
	exitSection("flockd-fence-show")(r)
	r.section("json")
	r.text(`The object has "resource", "token" (null: none has been admitted, and the exit code is 1) and "backend", without secrets.`)
}

func fenceResetSections(r *roff) {
	exitSection("flockd-fence-reset")(r)
	r.section("when")
	r.text(`When the lock of a writer moves to another store: tokens of etcd are its revisions, small numbers, those of all other stores the microseconds since 1970 or a little more. So after a move to
etcd the registers that keep what they have seen must be set down, and after a move from etcd the writers of before are refused by themselves. See docs/fencing.md of the source.

Between the look at what it was, which the message names, and the step that sets it, others may have been admitted.`)
}

const fenceFile = `What comes before the content is read: a token that is stale already, a DEST that can't be such a file, and a folder in which nothing can be made are refused at once.
The last word is said under a lock, when the content is on the disk.

DEST keeps its mode, and its owner and group as far as flockd may give them; a new DEST has what the umask leaves. Hard links of DEST keep the old content; extended
attributes and ACLs aren't carried over. Symbolic links, folders, devices and a file that is a mount point are refused, and so are network file systems, where the lock can't be relied on: run flockd on the host that has the disk.

While it is written, the content is in .NAME.fence.XXXXXXXX beside DEST. What a killed flockd has left there is removed by the next one. .NAME.fence keeps the token and is the lock; those who may write the folder
may read it. Without it any token is admitted: remove it only where nobody writes. A lock that is kept for 5 seconds in which DEST stays the same, by a flockd that is frozen for example, is given up with 69; the message names the process.

HUP, INT, QUIT and TERM end flockd with DEST as it was.`

func fenceFileSections(r *roff) {
	exitSection("flockd-fence-file")(r)
	r.section("what happens")
	r.text(fenceFile)
	r.section("caveats")
	r.text(`flockd can't see why its input ends. A command in a pipeline that fails halfway leaves half a content, and so does an ssh that is killed, by flockd run for example. Write
a file of your own first, as in the examples, and where it comes over a connection say with --size how long it is: a content of another length is refused with 69, as is an empty one without --size 0, and no token is admitted.

Tokens of two keys or two stores don't compare, and nothing sees whose token it is. One that is too large shuts out every writer after it, until .NAME.fence is removed.

Only writers that use this command are fenced, and those who have DEST open write on to the old content.`)
}
