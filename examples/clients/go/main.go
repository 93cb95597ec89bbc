// Predict and PredictStream of a fastqps server. README.md says how to make the stubs and how to run it.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"

	fastqps "fastqps/v1"
)

func main() {
	connection, err := grpc.Dial(os.Args[1], grpc.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := fastqps.NewPredictServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the deadline of every call below
	defer cancel()

	answer, err := client.Predict(ctx, text(0, "a text"))
	if err != nil {
		log.Fatal(err) // ResourceExhausted says in the trailer grpc-retry-pushback-ms when to come back
	}
	values := answer.GetEmbedding().GetValues()
	fmt.Println("predict", len(values), values[:3])

	stream, err := client.PredictStream(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for i, line := range []string{"a text", "another"} {
		if err := stream.Send(text(uint64(i), line)); err != nil {
			log.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		log.Fatal(err)
	}
	for {
		answer, err := stream.Recv() // in the order in which they finish
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		if answer.GetStatus().GetCode() != 0 { // one bad item does not fail the others
			fmt.Println("stream", answer.RequestId, answer.Status.Message)
			continue
		}
		fmt.Println("stream", answer.RequestId, answer.GetEmbedding().GetValues()[:3])
	}
}

func text(id uint64, line string) *fastqps.PredictRequest {
	return &fastqps.PredictRequest{RequestId: id, Input: &fastqps.PredictRequest_Text{Text: line}}
}
