"""Methods of the SDK that are not driven, each with its reason."""

LEFT_OUT = {"v1": {}, "v2": {}}
