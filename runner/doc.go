// Package runner carries one hold from the first try to the release: it waits in
// line, renews the lease, runs the command under it, and stops the command before
// a lease that can't be proven any more may pass on. It knows no driver.
//
// # The states of a hold
//
// Instants are readings of a local clock that nobody can set. "Sent" is the
// reading just before the last request that succeeded; the others are counted
// from it, see [Timing].
//
//	state     | ends with                          | goes to
//	----------+------------------------------------+-----------------------------------------
//	in line   | a grant                            | held
//	          | a grant after its own Term time    | in line: asked again, which extends it
//	          | the wait or the patience runs out, | over; the claim is released
//	          | a refusal, HUP, INT, QUIT or TERM, |
//	          | a notice for the place, its end by |
//	          | force, a success of Request.Once,  |
//	          | or Options.MaxWaiters in front     |
//	held      | a renewal                          | held, counted from its own sent
//	          | a hint that a renewal has news     | held: renewed at once
//	          | a question whether it stands       | held: renewed soon, which answers it
//	          | any failed renewal but ErrLost     | held: the old deadline stands
//	          | Term time without a renewal        | stopping: TERM now, KILL at Kill time
//	          | Kill time without a renewal        | stopping: KILL now, before any renewal
//	          | ErrLost, the store's word          | stopping: TERM now, KILL min(grace, 2 s) later
//	          |                                    | and at the old Kill time at the latest
//	          | a notice                           | stopping: TERM now, KILL a grace or 10 s later
//	          | MaxRuntime                         | stopping: TERM now, KILL a grace or 10 s later
//	          | a stop of the command, where a     | suspended: we stop, and a stand-in renews
//	          | shell waits for us                 |
//	          | the end of the command             | ended; with left-overs as Options.Leftovers says:
//	          |                                    | held until they have ended, or stopping
//	suspended | CONT                               | held, from the stand-in's last sent, and renewed at once;
//	          |                                    | or whatever the clock says by then, before any renewal
//	          | what would be told as a stop       | held: the stand-in sends us CONT
//	stopping  | the end of the whole tree          | ended; it is renewed until then
//	          | what stops a hold for its lease    | stopping: KILL as above, if that is sooner
//	          | Options.Hurry                      | stopping: KILL now
//	ended     | a look at the clock: Term passed?  | over: Lost if so; the lease is released
//
// With OnLost Warn a hold never stops for its lease: the command gets the warning
// signal once, is renewed on, and its class is Lost.
//
// What runs beside the command (Options.Beside) is of the command's tree for all that kills that.
// It is killed as soon as a stop is told, and as soon as the command has ended: no stop takes
// longer for it than its death does, nor is a left-over of its waited for.
//
// One process may call Run again and again, and finds its descriptors, children, signals and
// terminal as before, but for TTOU on systems other than Linux, which stays ignored after a run
// with a terminal. A second one at the same time shares what adopts orphans: without a cgroup each
// may take the other's for its own.
//
// # What is guaranteed
//
// While flockd or its guard runs and gets the processor within a quarter of a second,
// every process of the command that can be reached is dead before anybody else can have
// been granted the key, whatever the store and its driver do, and whatever happens
// to wall clocks. The lease is never given back while one of them is alive. What can
// be reached is said in package tree, what the guard does in package guard: it knows
// each deadline that the keeper does, and starts before the command. While we are
// suspended the stand-in is the keeper: see StandIn.
//
// # What is not
//
// With flockd and the guard killed or frozen together nobody stops the command, nor is
// there a guard with OnLost Warn. A flockd that is frozen between its last look at the
// clock and the start, and goes on after the deadline, starts a command that is killed as
// soon as the guard hears of it. A process of another user may not be killed, and one in
// an uninterruptible sleep dies late: the lease is renewed until then where the store
// lets us. What is left of a tree is read from /proc; while that can't be read, a tree
// that was told to stop is not taken for gone. A host without /proc has the process
// group alone.
package runner
