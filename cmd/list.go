package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
)

type listQuery struct {
	*query
	held  *value[bool]
	watch *value[bool]
}

func (a *app) newList() *cobra.Command {
	q := &listQuery{a.newQuery(), newSwitch(), newSwitch()}
	cmd := &cobra.Command{
		Use:   "list [PREFIX] [flags]",
		Short: "List the keys of a store, and who holds them",
		Long: "List the keys that somebody holds or waits for, or has used, in order; with PREFIX\n" +
			"those that begin with it. Each comes as it is read: the list is no snapshot.\n\n" +
			"The state is held, cooling (a --min-hold hasn't ended), waiting (nobody holds the\n" +
			"key, and the next in line hasn't taken its turn yet) or free.",
		Example: strings.Trim(listExamples, "\n"),
		Args:    arguments(0, "PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.run(cmd, strings.Join(args, ""))
		},
		ValidArgsFunction: q.completeKey,
	}
	set := cmd.Flags()
	addSwitch(set, groupLock, "held", "", q.held, "leave out the keys that are free")
	q.registerJSON(set, "print a JSON object a line for each key")
	addSwitch(set, groupOutput, "watch", "", q.watch, "keep looking, about once a second: on a terminal draw it anew, else print what has changed")
	q.register(set, "don't say that there is no such key")
	completeFlags(cmd)
	return cmd
}

const listExamples = `
# what is held now?
flockd list --held

# the keys of deployments whose last run failed
flockd list deploy/ --json | jq -r 'select(.last_run.token != .last_success.token) | .key'
`

func (q *listQuery) run(cmd *cobra.Command, prefix string) error {
	if err := q.prepare(cmd, ""); err != nil {
		return err
	}
	if q.watch.of {
		return q.show(cmd.Context(), true, func(ctx context.Context) (picture, error) { return q.lookAtList(ctx, prefix) })
	}
	out := bufio.NewWriterSize(q.Stdout, 1<<16)
	n, err := q.write(cmd.Context(), out, prefix)
	if flushed := out.Flush(); flushed != nil && err == nil {
		err = flushed
	}
	if err == nil && n == 0 {
		q.print.say(slog.LevelInfo, q.noKey(prefix))
	}
	return err
}

// noKey says what there is none of.
func (q *listQuery) noKey(prefix string) string {
	text := "no key"
	if prefix != "" {
		text += " that begins with " + shortened(prefix)
	}
	if q.held.of {
		return text + " is held in " + q.place()
	}
	return text + " has been used in " + q.place()
}

// write writes the list as it comes, and counts.
func (q *listQuery) write(ctx context.Context, out io.Writer, prefix string) (n int, err error) {
	t := newList(out)
	err = q.each(ctx, prefix, func(status backends.Status) error {
		if q.held.of && stateOf(status) == stateFree {
			return nil
		}
		n++
		if q.json.of {
			var b bytes.Buffer
			if err := writeLine(&b, viewOf(status)); err != nil {
				return err
			}
			_, err := out.Write(b.Bytes())
			return err
		}
		return t.key(status)
	})
	if flushed := t.flush(); flushed != nil && err == nil {
		err = flushed
	}
	return n, err
}

func (q *listQuery) lookAtList(ctx context.Context, prefix string) (picture, error) {
	var p picture
	var b bytes.Buffer
	t := newList(&b)
	err := q.each(ctx, prefix, func(status backends.Status) error {
		view := viewOf(status)
		hidden := q.held.of && view.State == stateFree
		p.things = append(p.things, thing{status.Key, view, view.unchanged(), hidden})
		if hidden {
			return nil
		}
		return t.key(status)
	})
	if err = errors.Join(err, t.flush()); err != nil {
		return p, err
	}
	if p.text = b.String(); p.text == "" {
		p.text = clean(q.noKey(prefix)) + "\n"
	}
	return p, nil
}

// keyList is a table of keys.
type keyList struct {
	*table
	begun bool
}

func newList(out io.Writer) *keyList { return &keyList{table: newTable(out, 28, 7, 18, 6, 7, 20)} }

// key adds a row: who holds a key, or was the last to run.
func (l *keyList) key(status backends.Status) error {
	if !l.begun {
		l.begun = true
		l.row("KEY", "STATE", "HOLDER", "SINCE", "WAITING", "LAST RUN")
	}
	holders, waiters := split(status.Line)
	holder, since, waiting := "-", "-", "-"
	if len(holders) > 0 {
		holder = namesOnly.owner(holders[0].Owner)
		if n := len(holders) - 1; n > 0 {
			holder += fmt.Sprintf(" +%d", n)
		}
		if at := holders[0].Granted; !at.IsZero() {
			since = age(status.AsOf.Sub(at))
		}
	}
	if len(waiters) > 0 {
		waiting = fmt.Sprint(len(waiters))
	}
	return l.row(clean(status.Key), stateOf(status), clean(holder), since, waiting, clean(lastText(status)))
}

// lastText is "exit 0, 3h ago".
func lastText(status backends.Status) string {
	r := status.Last
	if r == nil {
		return "-"
	}
	text := r.Class
	if r.Class == string(runner.Finished) {
		text = fmt.Sprintf("exit %d", r.Exit)
	}
	if !r.End.IsZero() {
		text += ", " + age(max(0, status.AsOf.Sub(r.End))) + " ago"
	}
	return text
}
