// Package drill rehearses a change of leader: two contenders run an election with a
// throw-away command on the user's own store, one of them is disturbed while it leads, and
// a judge says from what was seen whether all went as promised. It knows no driver.
//
// # Who is who
//
// The contenders and their commands are this program, started once more under names of
// their own: see ContenderName and CommandName. A contender hears from the drill through its
// stdin, the store's URL first, and ends with it; what it and its commands see they write to its
// stdout, one Event a line.
//
// # What is believed
//
// That a command lives is believed for the instants at which it says so. That it has ended is
// the kernel's word: the lock on a file that it had is free. All commands take one more lock,
// which is refused where two live at once. Instants are readings of CLOCK_BOOTTIME, which nobody
// can set and which compare between the processes of a host.
//
// # What is left behind
//
// Nothing runs on when Run returns: the contenders have ended, with their guards' help where
// need be, and so have their commands. If the drill is killed, its contenders see their stdin end: they stop
// their commands, give back what they hold, and remove the drill's folder; one that is frozen is
// woken for that by the kernel, on Linux. The store keeps what it keeps of every
// key: the last run.
package drill
