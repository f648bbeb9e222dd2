package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
)

const (
	completeWithin = 500 * time.Millisecond // somebody has pressed Tab
	completeAtMost = 1000
)

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeKey completes the first argument with the store's keys, if the store answers soon.
func (q *query) completeKey(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return q.complete(cmd, "", func(ctx context.Context, b backends.Backend, add func(word string) bool) {
		for status, err := range b.List(ctx, begun) {
			if err != nil || !add(status.Key) {
				return
			}
		}
	}), noFiles
}

// complete collects words from the store for key. It says nothing of what goes wrong.
func (q *query) complete(cmd *cobra.Command, key string, collect func(context.Context, backends.Backend, func(string) bool)) []string {
	if q.prepare(cmd, key) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	words := make(chan string)
	go func() {
		defer close(words)
		b, err := q.opened(ctx)
		if err != nil {
			return
		}
		collect(ctx, b, func(word string) bool {
			select {
			case words <- word:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	return collected(ctx, words)
}

func collected(ctx context.Context, words <-chan string) (all []string) {
	for len(all) < completeAtMost {
		select {
		case word, ok := <-words:
			if !ok {
				return all
			}
			if clean(word) == word { // else it is none to be typed
				all = append(all, word)
			}
		case <-ctx.Done():
			return all
		}
	}
	return all
}
