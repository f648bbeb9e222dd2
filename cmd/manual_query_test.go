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
SQLite keeps beside it (the same name with -wal and -shm), can use all but flockd break and flockd once forget. A store that gives no answer is
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

With --force the claim is gone at once, and the run is recorded as broken. Its holder is told as of a loss of the lease, with its next renewal, or at once where the store can; its fencing token is smaller than those of later runs. A key that is cooling after --min-hold is freed too.
--force doesn't go with --wait: the key is free at once, and nobody can tell when the command has ended.

Where several hold the key, shared or in slots, --id names one, and --all takes them all. --wait doesn't wait for a --min-hold.`)
}

func onceListSections(r *roff) {
	exitSection("flockd-once-list")(r)
	r.section("json")
	r.text(`Each run is one line, an object with "key", "run", "at" and "forgets" (RFC 3339 in UTC; null: kept for ever), "token" and "owner", as in flockd-status(1).`)
}
