// Calls a console as a program in another language does, and prints each result as a line of JSON.
//
//	client ADDRESS STEP [ARGUMENT...]
//
// The code under dstream/v1 is generated from api/dstream.proto.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	dstream "dstream/clients/grpc/dstream/v1"
)

func main() {
	channel, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer channel.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if token := os.Getenv("TOKEN"); token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	steps := map[string]func(context.Context, *grpc.ClientConn, []string) (any, error){
		"tables": tables, "watch": watch, "pause": pause, "letter": letter, "describe": describe, "replay": replay,
	}
	result, err := steps[os.Args[2]](ctx, channel, os.Args[3:])
	if err != nil {
		result = refusal(err)
	}
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A refusal as a program sees it: its code, its reason and its remedy.
func refusal(err error) any {
	found := status.Convert(err)
	said := map[string]string{"code": found.Code().String(), "text": found.Message()}
	for _, detail := range found.Details() {
		if info, is := detail.(*errdetails.ErrorInfo); is {
			said["reason"], said["domain"], said["remedy"] = info.Reason, info.Domain, info.Metadata["remedy"]
		}
	}
	return said
}

// All tables, page by page.
func tables(ctx context.Context, channel *grpc.ClientConn, _ []string) (any, error) {
	service, names := dstream.NewTableServiceClient(channel), []string{}
	request := &dstream.ListTablesRequest{Most: proto.Int32(5)}
	for {
		page, err := service.ListTables(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, table := range page.Items {
			names = append(names, table.Table)
		}
		if page.Next == nil {
			return names, nil
		}
		request.After = page.Next
	}
}

// The first three events: their numbers, and how many tables each has.
func watch(ctx context.Context, channel *grpc.ClientConn, _ []string) (any, error) {
	stream, err := dstream.NewEventServiceClient(channel).Watch(ctx, &dstream.WatchRequest{Tables: true})
	if err != nil {
		return nil, err
	}
	events := [][2]int64{}
	for len(events) < 3 {
		event, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		events = append(events, [2]int64{event.Number, int64(len(event.Tables))})
	}
	return events, nil
}

func pause(ctx context.Context, channel *grpc.ClientConn, arguments []string) (any, error) {
	table, err := dstream.NewTableServiceClient(channel).PauseTable(ctx, &dstream.PauseTableRequest{
		Name: arguments[0], Order: &dstream.PauseOrder{Reason: proto.String("a bulk load")},
	})
	if err != nil {
		return nil, err
	}
	return map[string]string{"state": table.State, "reason": table.Pause.GetReason()}, nil
}

// The first dead letter of an entity, with its properties and its body.
func letter(ctx context.Context, channel *grpc.ClientConn, arguments []string) (any, error) {
	service := dstream.NewMessageServiceClient(channel)
	page, err := service.ListMessages(ctx, &dstream.ListMessagesRequest{Entity: arguments[0], Dead: true, Most: proto.Int32(1)})
	if err != nil {
		return nil, err
	}
	first := page.Items[0]
	found, err := service.GetMessage(ctx, &dstream.GetMessageRequest{Entity: first.Entity, Dead: true, Sequence: first.Sequence})
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"sequence": found.Sequence, "reason": found.GetReason(), "properties": found.Properties.AsMap(), "remedy": found.GetRemedy(),
	}, nil
}

// Asks for a replay without saying that it is no dry run.
func replay(ctx context.Context, channel *grpc.ClientConn, arguments []string) (any, error) {
	found, err := dstream.NewDeadLetterServiceClient(channel).PlanReplay(ctx, &dstream.DeadLetterOrder{Entity: arguments[0]})
	if err != nil {
		return nil, err
	}
	return map[string]any{"dry_run": found.DryRun, "matched": found.Matched}, nil
}

// What reflection says of the services, to a client without generated code.
func describe(ctx context.Context, channel *grpc.ClientConn, _ []string) (any, error) {
	stream, err := reflection.NewServerReflectionClient(channel).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := ask(stream, &reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{ListServices: "*"},
	})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, service := range listed.GetListServicesResponse().Service {
		if strings.HasPrefix(service.Name, "dstream.v1.") {
			names = append(names, service.Name)
		}
	}
	sort.Strings(names)
	methods := []string{}
	described, err := ask(stream, &reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: names[0]},
	})
	if err != nil {
		return nil, err
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, raw := range described.GetFileDescriptorResponse().FileDescriptorProto {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, file); err != nil {
			return nil, err
		}
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		found, err := serviceIn(files, name)
		if err != nil {
			return nil, err
		}
		for number := 0; number < found.Methods().Len(); number++ {
			methods = append(methods, string(found.Name())+"."+string(found.Methods().Get(number).Name()))
		}
	}
	return methods, stream.CloseSend()
}

func ask(stream reflection.ServerReflection_ServerReflectionInfoClient, request *reflection.ServerReflectionRequest) (*reflection.ServerReflectionResponse, error) {
	if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream.Recv()
}

// The service of this name in what reflection has described.
func serviceIn(files *protoregistry.Files, name string) (protoreflect.ServiceDescriptor, error) {
	found, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	return found.(protoreflect.ServiceDescriptor), nil
}
