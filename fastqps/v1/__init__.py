"""The public contract's messages and stubs, as protoc writes them from proto/fastqps/v1/predict.proto."""
