package cmd

import (
	"errors"
	"fmt"
	"log/slog"

	"flockd/backends"
	"flockd/election"
	"flockd/runner"
)

// account is what is said of a candidate: a line for each change, and what the service manager
// shows of it.
type account struct {
	key    string
	say    func(level slog.Level, text string, attrs ...slog.Attr)
	status func(text string)

	named string         // the claim of whom the last line said that he leads; empty: of none yet
	last  *runner.Result // that was told of
	term  backends.Token // that is led; 0: none
	told  bool           // how the last term came out, when its command was gone
}

func (a *account) changed(s election.State) {
	if s.Last != nil && s.Last != a.last {
		a.last = s.Last
		if !a.told {
			a.over(*s.Last)
		}
		a.told = false
	}
	switch s.Phase {
	case election.Campaigning:
		a.campaigns(s.Held, s.Err)
	case election.Leading:
		a.leads(s.Lease)
	case election.Stopping:
		a.stops(s.Err)
	case election.Resting:
		a.say(slog.LevelInfo, fmt.Sprintf("campaigning for %s again in %s", a.key, short(s.Pause)), phase(s.Phase), slog.Duration("pause", s.Pause))
		a.status("resting for " + short(s.Pause))
	}
}

func phase(p election.Phase) slog.Attr { return slog.String("phase", string(p)) }

func termAttr(t backends.Token) slog.Attr { return slog.Int64("token", int64(t)) }

// campaigns says behind whom. In between two of them nobody leads, which is worth a line at the
// beginning alone. That the store gives no answer others say.
func (a *account) campaigns(held *backends.HeldError, err error) {
	switch {
	case held != nil:
		a.status("campaigning; " + headText(held, noDates))
	case err != nil:
		a.status("campaigning; no answer from the store: " + err.Error())
	default:
		a.status("campaigning")
	}
	if held == nil {
		return
	}
	id := "nobody"
	if c := foremost(held); len(held.Holders) > 0 {
		id = c.ID
	}
	if id == a.named || id == "nobody" && a.named != "" {
		return
	}
	a.named = id
	a.say(slog.LevelInfo, fmt.Sprintf("campaigning for %s: %s; %s", a.key, headText(held, inFull), place(held)), phase(election.Campaigning),
		slog.Any("held_by", cleanClaims(held.Holders)), slog.Int("waiting", held.Waiters), slog.Int("ahead", held.Ahead))
}

// headText is "led by root@web2 (pid 4711, daemon), term 17, since 2026-11-27 01:00:02 +0800 (2d3h ago)". What
// depends on now is left out where it isn't asked for in full.
func headText(held *backends.HeldError, b brevity) string {
	c := foremost(held)
	switch {
	case c == nil || len(held.Holders) == 0:
		return "nobody leads"
	case c.State != backends.Holding || c.Mode != backends.Exclusive:
		return inTheWay(held, wish{mode: backends.Exclusive}, b)
	}
	text := fmt.Sprintf("led by %s, term %d", b.owner(c.Owner), c.Token)
	if c.Granted.IsZero() {
		return text
	}
	if b == inFull {
		return text + ", since " + when(held.AsOf, c.Granted)
	}
	return text + ", since " + c.Granted.Local().Format(stamp)
}

func (a *account) leads(lease backends.Lease) {
	a.term, a.named = lease.Token, ""
	a.say(slog.LevelInfo, fmt.Sprintf("elected: leads %s, term %d", a.key, a.term), phase(election.Leading), termAttr(a.term))
	a.status(fmt.Sprintf("leading, term %d", a.term))
}

// stops says why the command is made to stop. Where that is for its lease, whoever keeps that
// has said so.
func (a *account) stops(why error) {
	var lost *runner.LostError
	var resigned *election.ResignedError
	text := why.Error()
	if errors.As(why, &resigned) {
		text = "signal " + signalName(resigned.Signal)
	}
	if !errors.As(why, &lost) {
		a.say(slog.LevelInfo, fmt.Sprintf("stopping the command of %s, term %d: %s", a.key, a.term, text), phase(election.Stopping), termAttr(a.term))
	}
	a.status("stopping: " + text)
}

// gone says that a term is over, before its hook has anything to say.
func (a *account) gone(res runner.Result) {
	if a.term != 0 {
		a.over(res)
		a.told = true
	}
}

// over says how a term has ended, or what else made the candidate leave the line.
func (a *account) over(res runner.Result) {
	if a.term == 0 {
		a.noTerm(res)
		return
	}
	level, why := slog.LevelInfo, ""
	switch {
	case runner.WasAsked(res.Err):
		why = res.Err.Error() + "; "
	case res.Class == runner.Lost:
		level, why = slog.LevelError, "the lease was lost: "+res.Err.Error()+"; "
	case res.Class == runner.Finished && res.Exit.Code != 0:
		level = slog.LevelWarn
	}
	a.say(level, fmt.Sprintf("deposed as leader of %s, term %d: %sthe command %s", a.key, a.term, why, exitText(res.Exit)),
		slog.String("phase", "deposed"), termAttr(a.term), slog.String("class", string(res.Class)), slog.Int("exit_code", res.Exit.Code))
	a.term = 0
}

func (a *account) noTerm(res runner.Result) {
	class := slog.String("class", string(res.Class))
	switch n := noticeOf(res); {
	case res.Class == runner.Skipped && n != backends.Notice{}:
		a.say(slog.LevelInfo, fmt.Sprintf("no longer in line for %s: %s", a.key, whyLeft(n)), class)
	case res.Err != nil:
		a.say(slog.LevelWarn, fmt.Sprintf("no term of %s: %s", a.key, res.Err), class)
	}
}

// ended reports whether all is said of the end of a candidate.
func (a *account) ended(res election.Result) bool {
	switch {
	case a.told:
	case a.term != 0:
		a.over(res.Result)
	case res.Resigned:
		text := "no longer a candidate for " + a.key
		if res.Signal != 0 {
			text += ": signal " + signalName(res.Signal)
		}
		a.say(slog.LevelInfo, text, slog.String("class", string(classResigned)))
	default:
		return false
	}
	return true
}
