package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// status is what an etcd member tells of itself.
type status struct {
	Header struct {
		Member string `json:"member_id"`
	}
	Leader string // "0" or "": it knows none
}

// asking has no connections left over, which would end up at a server's successor.
var asking = http.Client{
	Timeout:   2 * time.Second, // a member that is frozen doesn't answer at all
	Transport: &http.Transport{DisableKeepAlives: true},
}

func statusOf(addr string) (s status, err error) {
	resp, err := asking.Post("http://"+addr+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("status: %s", resp.Status)
	}
	return s, json.NewDecoder(resp.Body).Decode(&s)
}
