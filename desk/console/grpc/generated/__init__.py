"""The description of `api/dstream.proto`, written by `make proto`. Nobody edits it. It binds nobody to a version of protobuf, as code would."""
