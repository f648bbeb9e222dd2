package cmd

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"flockd/backends"
	"flockd/drill"
)

// drillFailed is the exit code of a drill in which not all went as promised.
const drillFailed exited = 1

// tell prints the report, and says what has gone wrong.
func (q *drillQuery) tell(r drill.Report, began time.Duration) error {
	v := q.view(r, began)
	var text bytes.Buffer
	switch {
	case q.quiet.of:
	case q.json.of:
		if err := writeLine(&text, v); err != nil {
			return err
		}
	default:
		if err := v.write(&text); err != nil {
			return err
		}
	}
	if _, err := q.Stdout.Write(text.Bytes()); err != nil {
		return err
	}
	if len(r.Failures) == 0 {
		return nil
	}
	q.print.say(slog.LevelError, "the drill of "+q.settings.key.of+" failed: "+strings.Join(v.Why, "; "), q.attrs()...)
	return drillFailed
}

// drillView is what programs are shown. Times are seconds, instants those since the drill began.
type drillView struct {
	Key        string          `json:"key"`
	Backend    string          `json:"backend"`
	Fault      drill.Fault     `json:"fault"`
	TTL        float64         `json:"ttl"`
	Passed     bool            `json:"passed"`
	Failures   []drill.Failure `json:"failures"`
	Why        []string        `json:"why"` // each failure in words
	Terms      []termView      `json:"terms"`
	Struck     *float64        `json:"fault_at"`
	Leader     *string         `json:"fault_of"`
	Gap        *float64        `json:"gap"`
	Change     *float64        `json:"change"`
	Overlaps   []overlapView   `json:"overlaps"`
	TermsGrow  bool            `json:"terms_grow"`
	Stale      staleView       `json:"stale_writes"`
	FollowedIn *float64        `json:"followed_after"`
}

type termView struct {
	Contender string         `json:"contender"`
	Token     backends.Token `json:"token"`
	From      float64        `json:"from"`
	To        float64        `json:"to"`
	EndedBy   string         `json:"ended_by"`
}

type overlapView struct {
	Tokens [2]backends.Token `json:"tokens"`
	From   float64           `json:"from"`
	For    float64           `json:"for"`
}

type staleView struct {
	Tried   int `json:"tried"`
	Refused int `json:"refused"`
}

func (q *drillQuery) view(r drill.Report, began time.Duration) drillView {
	v := drillView{
		Key: q.key, Backend: q.address(), Fault: r.Fault, TTL: r.TTL.Seconds(),
		Passed: len(r.Failures) == 0, Failures: append([]drill.Failure{}, r.Failures...), Why: []string{},
		Terms: []termView{}, Overlaps: []overlapView{}, TermsGrow: true, Stale: staleView{r.Tried, r.Stopped},
	}
	for _, t := range r.Terms {
		v.Terms = append(v.Terms, termView{t.Contender, t.Token, seconds(t.From - began), seconds(t.To - began), t.EndedBy})
	}
	for _, m := range r.Meetings {
		v.Overlaps = append(v.Overlaps, overlapView{m.Tokens, seconds(m.From - began), seconds(m.For)})
	}
	if r.Old >= 0 {
		v.Struck, v.Leader = new(seconds(r.Struck-began)), &r.Terms[r.Old].Contender
	}
	if r.New >= 0 {
		v.Gap, v.Change = new(seconds(r.Gap)), new(seconds(r.Change))
	}
	if r.Follows != nil {
		v.FollowedIn = new(seconds(*r.Follows))
	}
	for _, f := range r.Failures {
		v.TermsGrow = v.TermsGrow && f != drill.TermsFell
		v.Why = append(v.Why, v.failure(f))
	}
	return v
}

// seconds are whole milliseconds.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// failure says in words what didn't go as promised.
func (v *drillView) failure(f drill.Failure) string {
	switch f {
	case drill.Overlap:
		return v.overlap()
	case drill.TermsFell:
		return "a term is not larger than the one before"
	case drill.Admitted:
		return fmt.Sprintf("%d of %d stale writes were admitted", v.Stale.Tried-v.Stale.Refused, v.Stale.Tried)
	case drill.Untried:
		return "no stale write could be tried"
	case drill.NotFollowed:
		return "the old leader did not stand in line again"
	case drill.NoChange:
		if v.Struck == nil {
			return "nobody led"
		}
		return "no other leader was elected"
	}
	return string(f)
}

func (v *drillView) overlap() string {
	if len(v.Overlaps) == 0 {
		return "none"
	}
	var longest float64
	for _, o := range v.Overlaps {
		longest = max(longest, o.For)
	}
	return fmt.Sprintf("two commands ran at once, for %s at least", span(longest))
}

// span shows so many seconds.
func span(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// write writes the report for people.
func (v *drillView) write(b *bytes.Buffer) error {
	t := newTable(b, 9, 20, 10, 10, 0)
	t.row("contender", "term", "from", "to", "ended by")
	for _, term := range v.Terms {
		t.row(term.Contender, fmt.Sprint(term.Token), span(term.From), span(term.To), endedBy(term.EndedBy))
	}
	if err := t.flush(); err != nil {
		return err
	}
	b.WriteByte('\n')
	lines := newTable(b, 12, 0)
	for _, l := range v.lines() {
		lines.row(l[0], l[1])
	}
	return lines.flush()
}

func endedBy(what string) string {
	switch what {
	case string(drill.Resign):
		return "its resignation"
	case "end":
		return "the end of the drill"
	case "other":
		return "neither the fault nor the end"
	}
	return "--" + what
}

func (v *drillView) lines() [][2]string {
	fault, gap, follows := "none: nobody led", "no other leader was elected, TTL "+span(v.TTL), ""
	if v.Struck != nil {
		fault = fmt.Sprintf("%s of %s at %s", faultName(v.Fault), *v.Leader, span(*v.Struck))
	}
	if v.Gap != nil {
		gap = fmt.Sprintf("%s without a leader, TTL %s; %s from the fault to the next leader", span(*v.Gap), span(v.TTL), span(*v.Change))
		follows = "no"
	}
	lines := [][2]string{
		{"fault", fault}, {"gap", gap}, {"overlap", v.overlap()}, {"terms", word(v.TermsGrow, "grow", "do not grow")},
		{"stale writes", fmt.Sprintf("refused %d of %d", v.Stale.Refused, v.Stale.Tried)},
	}
	if v.FollowedIn != nil {
		follows = *v.Leader + " stood in line again after " + span(*v.FollowedIn)
	}
	if follows != "" && v.Fault != drill.Kill {
		lines = append(lines, [2]string{"follows", follows})
	}
	verdict := "passed"
	if !v.Passed {
		verdict = "failed: " + strings.Join(v.Why, "; ")
	}
	return append(lines, [2]string{"verdict", verdict})
}

func faultName(f drill.Fault) string {
	if f == drill.Resign {
		return "resignation"
	}
	return "--" + string(f)
}

func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
