"""The messages and stubs of the public contract, as protoc writes them from proto/fastqps/v1/predict.proto."""
