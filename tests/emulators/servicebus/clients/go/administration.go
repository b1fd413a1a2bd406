package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"sort"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func (p *program) administer(next step) (any, error) {
	switch next.Op {
	case "queue":
		settings := &admin.QueueProperties{}
		if err := json.Unmarshal(next.Settings, settings); err != nil { // JSON's names differ from Go's by case alone
			return nil, err
		}
		_, err := p.admin.CreateQueue(all, next.Entity, &admin.CreateQueueOptions{Properties: settings})
		return "created", err
	case "topic":
		_, err := p.admin.CreateTopic(all, next.Entity, nil)
		return "created", err
	case "subscription":
		topic, subscription, _ := strings.Cut(next.Entity, "/")
		_, err := p.admin.CreateSubscription(all, topic, subscription, nil)
		return "created", err
	case "rule":
		parts := strings.Split(next.Entity, "/")
		return "created", p.createRule(parts[0], parts[1], rule{parts[2], next.Filter, next.Action})
	case "show":
		return p.show(next)
	case "counts":
		found, err := p.admin.GetQueueRuntimeProperties(all, next.What, nil)
		if err != nil {
			return nil, err
		}
		return map[string]any{"active": found.ActiveMessageCount, "dead": found.DeadLetterMessageCount}, nil
	case "list":
		return p.list(next)
	case "drop":
		parts := strings.Split(next.What, "/")
		if len(parts) == 3 {
			_, err := p.admin.DeleteRule(all, parts[0], parts[1], parts[2], nil)
			return "dropped", err
		}
		_, err := p.admin.DeleteQueue(all, next.What, nil)
		return "dropped", err
	}
	return nil, fmt.Errorf("no step %s", next.Op)
}

func (p *program) show(next step) (any, error) {
	found, err := p.admin.GetQueue(all, next.What, nil)
	if err != nil {
		return nil, err
	}
	if found == nil { // how this client tells of what is not there
		return nil, &azcore.ResponseError{StatusCode: http.StatusNotFound}
	}
	var wanted []string
	if err := json.Unmarshal(next.Settings, &wanted); err != nil {
		return nil, err
	}
	told := map[string]any{}
	properties := reflect.ValueOf(found.QueueProperties)
	for _, name := range wanted {
		told[name] = properties.FieldByName(strings.ToUpper(name[:1]) + name[1:]).Interface()
	}
	return told, nil
}

func (p *program) createRule(topic, subscription string, made rule) error {
	options := &admin.CreateRuleOptions{Name: &made.Name}
	if made.Filter.SQL != nil {
		options.Filter = &admin.SQLFilter{Expression: *made.Filter.SQL}
	} else {
		options.Filter = &admin.CorrelationFilter{
			Subject: made.Filter.Correlation.Subject, ApplicationProperties: made.Filter.Correlation.ApplicationProperties,
		}
	}
	if made.Action != nil {
		options.Action = &admin.SQLAction{Expression: *made.Action}
	}
	_, err := p.admin.CreateRule(all, topic, subscription, options)
	return err
}

// rules goes over HTTP: this client has no rule manager.
func (p *program) rules(next step) (any, error) {
	topic, subscription, _ := strings.Cut(next.Subscription, "/")
	for _, made := range next.Create {
		if err := p.createRule(topic, subscription, made); err != nil {
			return nil, err
		}
	}
	for _, name := range next.Remove {
		if _, err := p.admin.DeleteRule(all, topic, subscription, name, nil); err != nil {
			return nil, err
		}
	}
	return p.list(step{What: next.Subscription})
}

func (p *program) list(next step) (any, error) {
	client := p.admin
	if next.Key != nil {
		other, err := p.administration(next.Key)
		if err != nil {
			return nil, err
		}
		client = other
	}
	names := []string{}
	topic, subscription, isSubscription := strings.Cut(next.What, "/")
	switch {
	case next.What == "queues":
		for pager := client.NewListQueuesPager(nil); pager.More(); {
			page, err := pager.NextPage(all)
			if err != nil {
				return nil, err
			}
			for _, one := range page.Queues {
				names = append(names, one.QueueName)
			}
		}
	case isSubscription:
		for pager := client.NewListRulesPager(topic, subscription, nil); pager.More(); {
			page, err := pager.NextPage(all)
			if err != nil {
				return nil, err
			}
			for _, one := range page.Rules {
				names = append(names, one.Name)
			}
		}
	default:
		for pager := client.NewListSubscriptionsPager(topic, nil); pager.More(); {
			page, err := pager.NextPage(all)
			if err != nil {
				return nil, err
			}
			for _, one := range page.Subscriptions {
				names = append(names, one.SubscriptionName)
			}
		}
	}
	sort.Strings(names)
	return names, nil
}
