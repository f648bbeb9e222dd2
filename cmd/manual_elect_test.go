package cmd

const electTerms = `A candidate stands in line for KEY for as long as it lives, and a store that doesn't answer is asked for ever. Elected, it runs COMMAND and renews the lease. A term
ends when

  COMMAND has ended by itself: what it left is stopped, and the key given back, so
  that another host may take over. By --restart (always, unless told otherwise)
  this candidate campaigns again after a pause: 1 second at first, doubling to 1
  minute, from 1 second again once COMMAND ran for a minute;

  the lease can't be proven any more: COMMAND is stopped (TERM, then KILL) and dead
  before anybody else can be elected. The candidate campaigns again at once;

  somebody asks for it, as flockd break does: the same;

  the candidate is told to end: it resigns, see SIGNALS.

COMMAND is looked for before the first campaign. Nothing of a term outlives it: what COMMAND leaves behind is stopped as well. How it is contained, and what the
guard does where flockd is killed or frozen, is in flockd-run(1) under PROCESSES.

Between two leaders nobody runs COMMAND: for --ttl at most where a leader's host dies or is cut off, and for milliseconds, and the time that COMMAND takes to end, where it resigns, or flockd
alone is killed and its guard lives. A shorter --ttl makes the first gap shorter, and is a shorter outage of the store that a leader rides out: a quarter of it, whenever that begins. With etcd let it be 10 seconds
at least, or a change of etcd's own leader deposes everybody's.

At most one candidate's COMMAND runs, as long as what flockd-run(1) says under CAVEATS doesn't happen. What COMMAND writes elsewhere should carry FLOCKD_TOKEN, the term, which grows with each
of them, so that the storage can refuse a leader that comes too late: flockd-fence(1).`

const electSignals = `TERM: it resigns. COMMAND gets TERM, and KILL after --grace, 10 seconds by default; the key is given back when nothing of it is left, and flockd exits with 0.
In line it leaves that within a second.

INT: the same, and flockd ends by INT itself. With a controlling terminal HUP and QUIT are as INT, and in the foreground COMMAND gets what is typed from the terminal.

HUP and QUIT without a terminal, and always USR1, USR2, WINCH and CONT, are passed to COMMAND, and dropped while none runs: a reload ends no follower.

A second TERM or INT, while COMMAND is being stopped, kills it at once.`

const electHooks = `--on-elected runs beside COMMAND, once that has been started; neither waits for the other. It belongs to COMMAND: what stops that ends it too, and so does its end. It has COMMAND's environment.

--on-deposed runs when nothing of COMMAND is left, once for each term in which that was started; giving the key back and the next campaign don't wait for it. It has the
environment of the term that has ended, and FLOCKD_DEPOSED says why: resigned (a signal to flockd), asked (by somebody), lost (the lease) or ended (COMMAND, by
itself). The next one may be elected before it is done: what it undoes must not be what the next one's --on-elected does. flockd waits for it, and what it has started, before it ends. Where flockd itself is killed none runs: let its unit clean up, by ExecStartPre= and ExecStopPost=.

The hooks of one candidate never overlap: an --on-elected waits for the --on-deposed of the term before. One that fails, or takes longer than --hook-limit and is killed
with what it has started, is worth one warning.`

const electSystemd = `Where NOTIFY_SOCKET is set, as in a unit of Type=notify, flockd says READY=1 once it campaigns, which is when the store has answered, or has let a first question
wait; not when it is elected. STATUS= tells on each change who leads, STOPPING=1 that it resigns. With WatchdogSec= it gives a sign of life twice in that time, as long as
the election moves and, when it leads, its lease stands or COMMAND is being stopped in time. COMMAND and hooks don't have these variables.
docs/systemd.md of the source has a unit.`

const electOutput = `On stderr there is a line for each change: behind whom it campaigns, elected in which term, why COMMAND is being stopped, deposed, and when it campaigns again. -q says only what has gone
wrong: a lease that was lost, COMMAND that ended by itself and not with 0, a hook, a store that doesn't answer or, where none is named, holds only for this user and host.`

// electVariables are the variables that flockd elect reads, and sets.
var electVariables = [][2]string{
	{"`FLOCKD_BACKEND`, `FLOCKD_CONFIG`, `FLOCKD_HELD`, `PATH`, `HOME`, `XDG_CONFIG_HOME`, `XDG_STATE_HOME`", "As for flockd-run(1)."},
	{"`FLOCKD_KEY`, `FLOCKD_TOKEN`, `FLOCKD_ID`, `FLOCKD_TTL`", "Set for COMMAND and hooks, as by flockd-run(1): the token is the term, and each term has an ID of its own."},
	{"`FLOCKD_DEPOSED`", "Set for --on-deposed: why the term has ended."},
	{"`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`", "See SYSTEMD. Not handed on."},
}

func electSections(r *roff) {
	exitSection("flockd-elect")(r)
	r.section("terms")
	r.text(electTerms)
	r.section("signals")
	r.text(electSignals)
	r.section("hooks")
	r.text(electHooks)
	r.section("systemd")
	r.text(electSystemd)
	r.section("output")
	r.text(electOutput)
	r.section("configuration")
	r.text("Of the settings that flockd.conf(5) has for runs, backend, ttl, grace, note, quiet, verbose and log-format count; a ttl that is meant for runs belongs into their sections. What is run, and when, is said on the command line alone.")
	r.section("environment")
	for _, v := range electVariables {
		r.item(v[0], v[1])
	}
}
