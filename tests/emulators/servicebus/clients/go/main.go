// Go's azservicebus as a client: runs the scenario on standard input, prints the results (tests/emulators/servicebus/clients/scenario.py).
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	bus "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
)

const waitSeconds = 10

type step struct {
	Name         string          `json:"name"`
	Op           string          `json:"op"`
	To           string          `json:"to"`
	From         string          `json:"from"`
	Of           string          `json:"of"`
	Entity       string          `json:"entity"`
	What         string          `json:"what"`
	Messages     json.RawMessage `json:"messages"`
	Batch        bool            `json:"batch"`
	Count        int             `json:"count"`
	Bytes        int             `json:"bytes"`
	Then         json.RawMessage `json:"then"`
	Properties   map[string]any  `json:"properties"`
	Reason       string          `json:"reason"`
	Description  string          `json:"description"`
	Dead         bool            `json:"dead"`
	Delete       bool            `json:"delete"`
	Wait         float64         `json:"wait"`
	Seconds      float64         `json:"seconds"`
	Session      *string         `json:"session"`
	State        *string         `json:"state"`
	Settings     json.RawMessage `json:"settings"`
	Filter       filter          `json:"filter"`
	Action       *string         `json:"action"`
	Create       []rule          `json:"create"`
	Remove       []string        `json:"remove"`
	Subscription string          `json:"subscription"`
	Key          *string         `json:"key"`
	Authority    *string         `json:"authority"`
}

type filter struct {
	SQL         *string `json:"sql"`
	Correlation *struct {
		Subject               *string        `json:"subject"`
		ApplicationProperties map[string]any `json:"applicationProperties"`
	} `json:"correlation"`
}

type rule struct {
	Name   string  `json:"name"`
	Filter filter  `json:"filter"`
	Action *string `json:"action"`
}

type message struct {
	Body                  string         `json:"body"`
	Repeat                int            `json:"repeat"`
	MessageID             *string        `json:"messageId"`
	ContentType           *string        `json:"contentType"`
	CorrelationID         *string        `json:"correlationId"`
	Subject               *string        `json:"subject"`
	To                    *string        `json:"to"`
	ReplyTo               *string        `json:"replyTo"`
	ReplyToSessionID      *string        `json:"replyToSessionId"`
	SessionID             *string        `json:"sessionId"`
	TimeToLive            *int64         `json:"timeToLive"`
	ApplicationProperties map[string]any `json:"applicationProperties"`
}

type failure struct {
	Error any    `json:"error"`
	Text  string `json:"text"`
}

type server struct {
	Administration string `json:"administration"`
	Connection     string `json:"connection"`
	Authority      string `json:"authority"`
}

type program struct {
	server server
	client *bus.Client
	admin  *admin.Client
	kept   map[string][]int64
}

// What receivers with and without a session have in common.
type receiver interface {
	ReceiveMessages(context.Context, int, *bus.ReceiveMessagesOptions) ([]*bus.ReceivedMessage, error)
	CompleteMessage(context.Context, *bus.ReceivedMessage, *bus.CompleteMessageOptions) error
	AbandonMessage(context.Context, *bus.ReceivedMessage, *bus.AbandonMessageOptions) error
	DeferMessage(context.Context, *bus.ReceivedMessage, *bus.DeferMessageOptions) error
	DeadLetterMessage(context.Context, *bus.ReceivedMessage, *bus.DeadLetterOptions) error
	Close(context.Context) error
}

var all = context.Background()

func main() {
	var document struct {
		Server server            `json:"server"`
		Steps  []json.RawMessage `json:"steps"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&document); err != nil {
		log.Fatal(err)
	}
	p := program{server: document.Server, kept: map[string][]int64{}}
	var err error
	if p.client, err = p.connect(nil, p.server.Authority); err != nil {
		log.Fatal(err)
	}
	if p.admin, err = p.administration(nil); err != nil {
		log.Fatal(err)
	}
	results := map[string]any{}
	for _, raw := range document.Steps {
		var next step
		if err := json.Unmarshal(raw, &next); err != nil {
			log.Fatal(err)
		}
		results[next.Name] = p.attempt(next)
	}
	p.client.Close(all)
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		log.Fatal(err)
	}
}

func trusting(authority string) (*tls.Config, error) {
	certificate, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	// Left to itself the client asks for a certificate of host and port.
	return &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}, nil
}

func keyed(connection string, key *string) string {
	if key == nil {
		return connection
	}
	return regexp.MustCompile(`SharedAccessKey=[^;]*`).ReplaceAllString(connection, "SharedAccessKey="+*key)
}

func (p *program) connect(key *string, authority string) (*bus.Client, error) {
	config, err := trusting(authority)
	if err != nil {
		return nil, err
	}
	return bus.NewClientFromConnectionString(keyed(p.server.Connection, key), &bus.ClientOptions{
		TLSConfig:    config,
		RetryOptions: bus.RetryOptions{MaxRetries: -1},
	})
}

func (p *program) administration(key *string) (*admin.Client, error) {
	config, err := trusting(p.server.Authority)
	if err != nil {
		return nil, err
	}
	return admin.NewClientFromConnectionString(keyed(p.server.Administration, key), &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: config}},
			Retry:     policy.RetryOptions{MaxRetries: -1},
		},
	})
}

func (p *program) attempt(next step) any {
	result, err := p.run(next)
	if err == nil {
		return result
	}
	var told *bus.Error
	if errors.As(err, &told) {
		return failure{string(told.Code), told.Error()}
	}
	var answered *azcore.ResponseError
	if errors.As(err, &answered) {
		return failure{fmt.Sprint(answered.StatusCode), answered.Error()}
	}
	var refused *amqp.Error
	if errors.As(err, &refused) {
		return failure{string(refused.Condition), refused.Error()}
	}
	if errors.Is(err, bus.ErrMessageTooLarge) {
		return failure{"messagetoolarge", err.Error()}
	}
	return failure{nil, err.Error()}
}

func (p *program) run(next step) (any, error) {
	client := p.client
	if next.Key != nil || next.Authority != nil {
		authority := p.server.Authority
		if next.Authority != nil {
			authority = *next.Authority
		}
		other, err := p.connect(next.Key, authority)
		if err != nil {
			return nil, err
		}
		defer other.Close(all)
		client = other
	}
	switch next.Op {
	case "send", "fill", "schedule", "cancel":
		sender, err := client.NewSender(next.To, nil)
		if err != nil {
			return nil, err
		}
		defer sender.Close(all)
		return p.sending(sender, next)
	case "receive", "deferred", "peek":
		return p.receiving(client, next)
	case "session", "sessions", "twice":
		return p.inSessions(next)
	case "rules":
		return p.rules(next)
	}
	return p.administer(next)
}

func (p *program) sending(sender *bus.Sender, next step) (any, error) {
	switch next.Op {
	case "fill":
		for range next.Count {
			if err := sender.SendMessage(all, &bus.Message{Body: make([]byte, next.Bytes)}, nil); err != nil {
				return nil, err
			}
		}
		return "not full", nil
	case "cancel":
		return "cancelled", sender.CancelScheduledMessages(all, p.kept[next.Of], nil)
	}
	messages, err := outgoing(next.Messages)
	if err != nil {
		return nil, err
	}
	if next.Op == "schedule" {
		due := time.Now().Add(time.Duration(next.Seconds * float64(time.Second)))
		p.kept[next.Name], err = sender.ScheduleMessages(all, messages, due, nil)
		return "scheduled", err
	}
	if !next.Batch {
		for _, one := range messages {
			if err := sender.SendMessage(all, one, nil); err != nil {
				return nil, err
			}
		}
		return "sent", nil
	}
	batch, err := sender.NewMessageBatch(all, nil)
	if err != nil {
		return nil, err
	}
	for _, one := range messages {
		if err := batch.AddMessage(one, nil); err != nil {
			return nil, err
		}
	}
	return "sent", sender.SendMessageBatch(all, batch, nil)
}

func outgoing(raw json.RawMessage) ([]*bus.Message, error) {
	var given []message
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	made := []*bus.Message{}
	for _, one := range given {
		body := strings.Repeat(one.Body, max(one.Repeat, 1))
		next := &bus.Message{
			Body: []byte(body), MessageID: one.MessageID, ContentType: one.ContentType, CorrelationID: one.CorrelationID,
			Subject: one.Subject, To: one.To, ReplyTo: one.ReplyTo, ReplyToSessionID: one.ReplyToSessionID,
			SessionID: one.SessionID, ApplicationProperties: native(one.ApplicationProperties),
		}
		if one.TimeToLive != nil {
			life := time.Duration(*one.TimeToLive) * time.Millisecond
			next.TimeToLive = &life
		}
		made = append(made, next)
	}
	return made, nil
}

// native makes whole numbers of JSON's what a Go program would pass.
func native(given map[string]any) map[string]any {
	made := map[string]any{}
	for name, value := range given {
		if number, ok := value.(float64); ok && number == float64(int64(number)) {
			value = int64(number)
		}
		made[name] = value
	}
	return made
}

// rendered counts deliveries from zero, as the others do: this client adds the one at hand.
func rendered(one *bus.ReceivedMessage) map[string]any {
	body := string(one.Body)
	if strings.ToValidUTF8(body, "") != body {
		body = "0x" + hex.EncodeToString(one.Body)
	}
	states := map[bus.MessageState]string{
		bus.MessageStateActive: "active", bus.MessageStateDeferred: "deferred", bus.MessageStateScheduled: "scheduled",
	}
	found := map[string]any{"body": body, "count": one.DeliveryCount - 1, "state": states[one.State]}
	if one.MessageID != "" && !regexp.MustCompile(`^[0-9a-f-]{32,36}$`).MatchString(one.MessageID) {
		found["messageId"] = one.MessageID
	}
	for name, value := range map[string]*string{
		"contentType": one.ContentType, "correlationId": one.CorrelationID, "subject": one.Subject, "to": one.To,
		"replyTo": one.ReplyTo, "replyToSessionId": one.ReplyToSessionID, "sessionId": one.SessionID,
		"partitionKey": one.PartitionKey, "deadLetterReason": one.DeadLetterReason,
		"deadLetterErrorDescription": one.DeadLetterErrorDescription,
	} {
		if value != nil {
			found[name] = *value
		}
	}
	if one.TimeToLive != nil && *one.TimeToLive > 0 { // none is zero
		found["timeToLive"] = one.TimeToLive.Milliseconds()
	}
	if len(one.ApplicationProperties) > 0 {
		properties := map[string]any{}
		for name, value := range one.ApplicationProperties {
			properties[name] = cell(value)
		}
		found["applicationProperties"] = properties
	}
	return found
}

func cell(value any) any {
	switch typed := value.(type) {
	case time.Time:
		return typed.UTC().Format("2006-01-02T15:04:05.000Z")
	case []byte:
		return "0x" + hex.EncodeToString(typed)
	case fmt.Stringer:
		return typed.String()
	}
	return value
}

func (p *program) receiving(client *bus.Client, next step) (any, error) {
	options := &bus.ReceiverOptions{}
	if next.Delete {
		options.ReceiveMode = bus.ReceiveModeReceiveAndDelete
	}
	if next.Dead {
		options.SubQueue = bus.SubQueueDeadLetter
	}
	var from *bus.Receiver
	var err error
	if topic, subscription, ok := strings.Cut(next.From, "/"); ok {
		from, err = client.NewReceiverForSubscription(topic, subscription, options)
	} else {
		from, err = client.NewReceiverForQueue(next.From, options)
	}
	if err != nil {
		return nil, err
	}
	defer from.Close(all)
	told := []any{}
	switch next.Op {
	case "peek":
		found, err := from.PeekMessages(all, next.Count, nil)
		for _, one := range found {
			told = append(told, rendered(one))
		}
		return told, err
	case "deferred":
		found, err := from.ReceiveDeferredMessages(all, p.kept[next.Of], nil)
		for _, one := range found {
			told = append(told, rendered(one))
			if err := from.CompleteMessage(all, one, nil); err != nil {
				return nil, err
			}
		}
		return told, err
	}
	return p.collect(from, next, func(one *bus.ReceivedMessage) error { return from.RenewMessageLock(all, one, nil) })
}

func (p *program) collect(from receiver, next step, renew func(*bus.ReceivedMessage) error) (any, error) {
	seconds := next.Wait
	if seconds == 0 {
		seconds = waitSeconds
	}
	within, stop := context.WithTimeout(all, time.Duration(seconds*float64(time.Second)))
	defer stop()
	found := []*bus.ReceivedMessage{}
	for len(found) < next.Count {
		some, err := from.ReceiveMessages(within, next.Count-len(found), nil)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	var then string
	if err := json.Unmarshal(next.Then, &then); err != nil {
		return nil, err
	}
	told := []any{}
	for _, one := range found {
		told = append(told, rendered(one))
		if err := p.settle(from, one, next, then, renew); err != nil {
			return nil, err
		}
	}
	return told, nil
}

func (p *program) settle(from receiver, one *bus.ReceivedMessage, next step, then string, renew func(*bus.ReceivedMessage) error) error {
	properties := native(next.Properties)
	switch then {
	case "complete":
		return from.CompleteMessage(all, one, nil)
	case "abandon":
		return from.AbandonMessage(all, one, &bus.AbandonMessageOptions{PropertiesToModify: properties})
	case "defer":
		p.kept[next.Name] = append(p.kept[next.Name], *one.SequenceNumber)
		return from.DeferMessage(all, one, &bus.DeferMessageOptions{PropertiesToModify: properties})
	case "deadLetter":
		return from.DeadLetterMessage(all, one, &bus.DeadLetterOptions{
			Reason: &next.Reason, ErrorDescription: &next.Description, PropertiesToModify: properties,
		})
	case "renew":
		before := *one.LockedUntil
		if err := renew(one); err != nil {
			return err
		}
		if one.LockedUntil.Before(before) {
			return fmt.Errorf("renewed from %s to %s", before, one.LockedUntil)
		}
		return from.CompleteMessage(all, one, nil)
	}
	return nil
}

func (p *program) accept(queue string, session *string) (*bus.SessionReceiver, error) {
	within, stop := context.WithTimeout(all, waitSeconds*time.Second)
	defer stop()
	if session == nil {
		return p.client.AcceptNextSessionForQueue(within, queue, nil)
	}
	return p.client.AcceptSessionForQueue(within, queue, *session, nil)
}

func (p *program) inSessions(next step) (any, error) {
	if next.Op == "sessions" {
		return p.sessions(next)
	}
	from, err := p.accept(next.From, next.Session)
	if err != nil {
		return nil, err
	}
	defer from.Close(all)
	if next.Op == "twice" {
		second, err := p.accept(next.From, next.Session)
		if err == nil {
			second.Close(all)
		}
		return "accepted twice", err
	}
	var parts []step
	if err := json.Unmarshal(next.Then, &parts); err != nil {
		return nil, err
	}
	told := []any{from.SessionID()}
	for _, part := range parts {
		one, err := p.inSession(from, part)
		if err != nil {
			return nil, err
		}
		told = append(told, one)
	}
	return told, nil
}

func (p *program) inSession(from *bus.SessionReceiver, part step) (any, error) {
	switch part.Op {
	case "get":
		state, err := from.GetSessionState(all, nil)
		if state == nil {
			return nil, err
		}
		return string(state), err
	case "set":
		var state []byte
		if part.State != nil {
			state = []byte(*part.State)
		}
		return "set", from.SetSessionState(all, state, nil)
	case "renew":
		if err := from.RenewSessionLock(all, nil); err != nil {
			return nil, err
		}
		if from.LockedUntil().After(time.Now()) {
			return "renewed", nil
		}
		return "not renewed", nil
	}
	return p.collect(from, part, nil)
}

func (p *program) sessions(next step) (any, error) {
	var count int
	if err := json.Unmarshal(next.Messages, &count); err != nil {
		return nil, err
	}
	held := []*bus.SessionReceiver{}
	for range next.Count {
		one, err := p.accept(next.From, nil)
		if err != nil {
			return nil, err
		}
		defer one.Close(all)
		held = append(held, one)
	}
	type found struct {
		session  string
		messages any
		err      error
	}
	answers := make(chan found)
	for _, one := range held {
		go func() {
			messages, err := p.collect(one, step{Count: count, Then: json.RawMessage(`"complete"`)}, nil)
			answers <- found{one.SessionID(), messages, err}
		}()
	}
	told := map[string]any{}
	for range held {
		answer := <-answers
		if answer.err != nil {
			return nil, answer.err
		}
		bodies := []any{}
		for _, one := range answer.messages.([]any) {
			bodies = append(bodies, one.(map[string]any)["body"])
		}
		told[answer.session] = bodies
	}
	return told, nil
}
