from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DTYPE_UNSPECIFIED: _ClassVar[DType]
    DTYPE_FLOAT32: _ClassVar[DType]
    DTYPE_FLOAT16: _ClassVar[DType]
    DTYPE_INT8: _ClassVar[DType]
    DTYPE_UINT8: _ClassVar[DType]
    DTYPE_BINARY: _ClassVar[DType]
    DTYPE_UBINARY: _ClassVar[DType]

class Structure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STRUCTURE_UNSPECIFIED: _ClassVar[Structure]
    STRUCTURE_JSON_OBJECT: _ClassVar[Structure]
    STRUCTURE_JSON_SCHEMA: _ClassVar[Structure]
    STRUCTURE_REGEX: _ClassVar[Structure]
    STRUCTURE_GRAMMAR: _ClassVar[Structure]

class Aggregation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGGREGATION_UNSPECIFIED: _ClassVar[Aggregation]
    AGGREGATION_NONE: _ClassVar[Aggregation]
    AGGREGATION_SIMPLE: _ClassVar[Aggregation]
    AGGREGATION_FIRST: _ClassVar[Aggregation]
    AGGREGATION_AVERAGE: _ClassVar[Aggregation]
    AGGREGATION_MAX: _ClassVar[Aggregation]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]

class Task(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_UNSPECIFIED: _ClassVar[Task]
    TASK_EMBED: _ClassVar[Task]
    TASK_CLASSIFY: _ClassVar[Task]
    TASK_GENERATE: _ClassVar[Task]
    TASK_CLASSIFY_TOKENS: _ClassVar[Task]
    TASK_EMBED_SPARSE: _ClassVar[Task]
    TASK_EMBED_MULTI: _ClassVar[Task]
PRIORITY_UNSPECIFIED: Priority
PRIORITY_LOW: Priority
PRIORITY_NORMAL: Priority
PRIORITY_HIGH: Priority
DTYPE_UNSPECIFIED: DType
DTYPE_FLOAT32: DType
DTYPE_FLOAT16: DType
DTYPE_INT8: DType
DTYPE_UINT8: DType
DTYPE_BINARY: DType
DTYPE_UBINARY: DType
STRUCTURE_UNSPECIFIED: Structure
STRUCTURE_JSON_OBJECT: Structure
STRUCTURE_JSON_SCHEMA: Structure
STRUCTURE_REGEX: Structure
STRUCTURE_GRAMMAR: Structure
AGGREGATION_UNSPECIFIED: Aggregation
AGGREGATION_NONE: Aggregation
AGGREGATION_SIMPLE: Aggregation
AGGREGATION_FIRST: Aggregation
AGGREGATION_AVERAGE: Aggregation
AGGREGATION_MAX: Aggregation
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
TASK_UNSPECIFIED: Task
TASK_EMBED: Task
TASK_CLASSIFY: Task
TASK_GENERATE: Task
TASK_CLASSIFY_TOKENS: Task
TASK_EMBED_SPARSE: Task
TASK_EMBED_MULTI: Task

class PredictRequest(_message.Message):
    __slots__ = ("model", "text", "token_ids", "pair", "chat", "request_id", "priority", "generate", "output", "timeout_us", "truncate", "tenant", "group", "prompt_name")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    PAIR_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    GENERATE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    model: str
    text: str
    token_ids: TokenIds
    pair: TextPair
    chat: Chat
    request_id: int
    priority: Priority
    generate: GenerateOptions
    output: OutputOptions
    timeout_us: int
    truncate: bool
    tenant: str
    group: str
    prompt_name: str
    def __init__(self, model: _Optional[str] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., pair: _Optional[_Union[TextPair, _Mapping]] = ..., chat: _Optional[_Union[Chat, _Mapping]] = ..., request_id: _Optional[int] = ..., priority: _Optional[_Union[Priority, str]] = ..., generate: _Optional[_Union[GenerateOptions, _Mapping]] = ..., output: _Optional[_Union[OutputOptions, _Mapping]] = ..., timeout_us: _Optional[int] = ..., truncate: bool = ..., tenant: _Optional[str] = ..., group: _Optional[str] = ..., prompt_name: _Optional[str] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class TextPair(_message.Message):
    __slots__ = ("first", "second", "keep_second")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    KEEP_SECOND_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    keep_second: bool
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ..., keep_second: bool = ...) -> None: ...

class Chat(_message.Message):
    __slots__ = ("messages", "continue_final_message", "variables")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_FINAL_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    continue_final_message: bool
    variables: str
    def __init__(self, messages: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ..., continue_final_message: bool = ..., variables: _Optional[str] = ...) -> None: ...

class ChatMessage(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ("request_id", "embedding", "classification", "generation", "entities", "sparse", "multi", "timings", "status", "usage")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    CLASSIFICATION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    SPARSE_FIELD_NUMBER: _ClassVar[int]
    MULTI_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    embedding: Embedding
    classification: Classification
    generation: Generation
    entities: Entities
    sparse: SparseEmbedding
    multi: MultiVector
    timings: Timings
    status: Status
    usage: Usage
    def __init__(self, request_id: _Optional[int] = ..., embedding: _Optional[_Union[Embedding, _Mapping]] = ..., classification: _Optional[_Union[Classification, _Mapping]] = ..., generation: _Optional[_Union[Generation, _Mapping]] = ..., entities: _Optional[_Union[Entities, _Mapping]] = ..., sparse: _Optional[_Union[SparseEmbedding, _Mapping]] = ..., multi: _Optional[_Union[MultiVector, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., status: _Optional[_Union[Status, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "truncated", "truncated_at")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_AT_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    truncated: bool
    truncated_at: int
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., truncated: bool = ..., truncated_at: _Optional[int] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("values", "raw", "dtype")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    raw: bytes
    dtype: DType
    def __init__(self, values: _Optional[_Iterable[float]] = ..., raw: _Optional[bytes] = ..., dtype: _Optional[_Union[DType, str]] = ...) -> None: ...

class MultiVector(_message.Message):
    __slots__ = ("values", "raw", "dtype", "dimensions")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    raw: bytes
    dtype: DType
    dimensions: int
    def __init__(self, values: _Optional[_Iterable[float]] = ..., raw: _Optional[bytes] = ..., dtype: _Optional[_Union[DType, str]] = ..., dimensions: _Optional[int] = ...) -> None: ...

class Classification(_message.Message):
    __slots__ = ("labels",)
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[Label]
    def __init__(self, labels: _Optional[_Iterable[_Union[Label, _Mapping]]] = ...) -> None: ...

class Label(_message.Message):
    __slots__ = ("name", "score", "index")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    name: str
    score: float
    index: int
    def __init__(self, name: _Optional[str] = ..., score: _Optional[float] = ..., index: _Optional[int] = ...) -> None: ...

class Entities(_message.Message):
    __slots__ = ("entities",)
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    entities: _containers.RepeatedCompositeFieldContainer[Entity]
    def __init__(self, entities: _Optional[_Iterable[_Union[Entity, _Mapping]]] = ...) -> None: ...

class Entity(_message.Message):
    __slots__ = ("label", "score", "start", "end")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    label: str
    score: float
    start: int
    end: int
    def __init__(self, label: _Optional[str] = ..., score: _Optional[float] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class SparseEmbedding(_message.Message):
    __slots__ = ("ids", "weights", "active")
    IDS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    weights: _containers.RepeatedScalarFieldContainer[float]
    active: int
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., weights: _Optional[_Iterable[float]] = ..., active: _Optional[int] = ...) -> None: ...

class Generation(_message.Message):
    __slots__ = ("text", "token_ids", "finish_reason", "logprobs", "top_logprobs", "prompt_logprobs", "choice_scores", "other_choices")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    CHOICE_SCORES_FIELD_NUMBER: _ClassVar[int]
    OTHER_CHOICES_FIELD_NUMBER: _ClassVar[int]
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    finish_reason: FinishReason
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    top_logprobs: TopLogprobs
    prompt_logprobs: PromptLogprobs
    choice_scores: _containers.RepeatedCompositeFieldContainer[ChoiceScore]
    other_choices: _containers.RepeatedCompositeFieldContainer[Generation]
    def __init__(self, text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., logprobs: _Optional[_Iterable[float]] = ..., top_logprobs: _Optional[_Union[TopLogprobs, _Mapping]] = ..., prompt_logprobs: _Optional[_Union[PromptLogprobs, _Mapping]] = ..., choice_scores: _Optional[_Iterable[_Union[ChoiceScore, _Mapping]]] = ..., other_choices: _Optional[_Iterable[_Union[Generation, _Mapping]]] = ...) -> None: ...

class TopLogprobs(_message.Message):
    __slots__ = ("token_ids", "logprobs")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ...) -> None: ...

class PromptLogprobs(_message.Message):
    __slots__ = ("token_ids", "logprobs", "top_logprobs")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    top_logprobs: TopLogprobs
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ..., top_logprobs: _Optional[_Union[TopLogprobs, _Mapping]] = ...) -> None: ...

class ChoiceScore(_message.Message):
    __slots__ = ("logprob", "score")
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    logprob: float
    score: float
    def __init__(self, logprob: _Optional[float] = ..., score: _Optional[float] = ...) -> None: ...

class GenerateOptions(_message.Message):
    __slots__ = ("max_tokens", "temperature", "top_k", "top_p", "seed", "stop", "ignore_eos", "logprobs", "stop_token_ids", "repetition_penalty", "no_repeat_ngram_size", "min_tokens", "suppress_token_ids", "add_special_tokens", "presence_penalty", "frequency_penalty", "min_p", "typical_p", "n", "best_of", "top_logprobs", "prompt_logprobs", "logit_bias", "include_stop_text", "choices", "structure", "structure_text")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    NO_REPEAT_NGRAM_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SUPPRESS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    ADD_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    TYPICAL_P_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    BEST_OF_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_STOP_TEXT_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_TEXT_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    seed: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    ignore_eos: bool
    logprobs: bool
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    repetition_penalty: float
    no_repeat_ngram_size: int
    min_tokens: int
    suppress_token_ids: _containers.RepeatedScalarFieldContainer[int]
    add_special_tokens: bool
    presence_penalty: float
    frequency_penalty: float
    min_p: float
    typical_p: float
    n: int
    best_of: int
    top_logprobs: int
    prompt_logprobs: int
    logit_bias: _containers.ScalarMap[int, float]
    include_stop_text: bool
    choices: _containers.RepeatedScalarFieldContainer[str]
    structure: Structure
    structure_text: str
    def __init__(self, max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., seed: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., ignore_eos: bool = ..., logprobs: bool = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., repetition_penalty: _Optional[float] = ..., no_repeat_ngram_size: _Optional[int] = ..., min_tokens: _Optional[int] = ..., suppress_token_ids: _Optional[_Iterable[int]] = ..., add_special_tokens: bool = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., min_p: _Optional[float] = ..., typical_p: _Optional[float] = ..., n: _Optional[int] = ..., best_of: _Optional[int] = ..., top_logprobs: _Optional[int] = ..., prompt_logprobs: _Optional[int] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., include_stop_text: bool = ..., choices: _Optional[_Iterable[str]] = ..., structure: _Optional[_Union[Structure, str]] = ..., structure_text: _Optional[str] = ...) -> None: ...

class OutputOptions(_message.Message):
    __slots__ = ("dtype", "dimensions", "normalize", "top_labels", "raw_scores", "timings", "aggregation", "max_active_dims")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    TOP_LABELS_FIELD_NUMBER: _ClassVar[int]
    RAW_SCORES_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    AGGREGATION_FIELD_NUMBER: _ClassVar[int]
    MAX_ACTIVE_DIMS_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    dimensions: int
    normalize: bool
    top_labels: int
    raw_scores: bool
    timings: bool
    aggregation: Aggregation
    max_active_dims: int
    def __init__(self, dtype: _Optional[_Union[DType, str]] = ..., dimensions: _Optional[int] = ..., normalize: bool = ..., top_labels: _Optional[int] = ..., raw_scores: bool = ..., timings: bool = ..., aggregation: _Optional[_Union[Aggregation, str]] = ..., max_active_dims: _Optional[int] = ...) -> None: ...

class GenerateChunk(_message.Message):
    __slots__ = ("request_id", "text", "token_ids", "finish_reason", "logprobs", "usage", "timings", "top_logprobs", "prompt_logprobs", "choice_scores", "choice")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    CHOICE_SCORES_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    finish_reason: FinishReason
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    usage: Usage
    timings: Timings
    top_logprobs: TopLogprobs
    prompt_logprobs: PromptLogprobs
    choice_scores: _containers.RepeatedCompositeFieldContainer[ChoiceScore]
    choice: int
    def __init__(self, request_id: _Optional[int] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., logprobs: _Optional[_Iterable[float]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., top_logprobs: _Optional[_Union[TopLogprobs, _Mapping]] = ..., prompt_logprobs: _Optional[_Union[PromptLogprobs, _Mapping]] = ..., choice_scores: _Optional[_Iterable[_Union[ChoiceScore, _Mapping]]] = ..., choice: _Optional[int] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("code", "message", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    retry_after_ms: int
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("parse_us", "tokenize_us", "queue_us", "gather_us", "launch_us", "device_us", "scatter_us", "drain_us", "upstream_us")
    PARSE_US_FIELD_NUMBER: _ClassVar[int]
    TOKENIZE_US_FIELD_NUMBER: _ClassVar[int]
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    GATHER_US_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_US_FIELD_NUMBER: _ClassVar[int]
    DEVICE_US_FIELD_NUMBER: _ClassVar[int]
    SCATTER_US_FIELD_NUMBER: _ClassVar[int]
    DRAIN_US_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_US_FIELD_NUMBER: _ClassVar[int]
    parse_us: int
    tokenize_us: int
    queue_us: int
    gather_us: int
    launch_us: int
    device_us: int
    scatter_us: int
    drain_us: int
    upstream_us: int
    def __init__(self, parse_us: _Optional[int] = ..., tokenize_us: _Optional[int] = ..., queue_us: _Optional[int] = ..., gather_us: _Optional[int] = ..., launch_us: _Optional[int] = ..., device_us: _Optional[int] = ..., scatter_us: _Optional[int] = ..., drain_us: _Optional[int] = ..., upstream_us: _Optional[int] = ...) -> None: ...

class PredictBatchRequest(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[PredictRequest]
    def __init__(self, items: _Optional[_Iterable[_Union[PredictRequest, _Mapping]]] = ...) -> None: ...

class PredictBatchResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[PredictResponse]
    def __init__(self, items: _Optional[_Iterable[_Union[PredictResponse, _Mapping]]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "version", "task", "is_default", "input_tokens_max", "output_tokens_max", "dimensions", "labels", "native_tokenizer", "warnings", "prompt_names", "default_prompt_name", "repeatable", "takes_chats")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    INPUT_TOKENS_MAX_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_MAX_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NATIVE_TOKENIZER_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAMES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    REPEATABLE_FIELD_NUMBER: _ClassVar[int]
    TAKES_CHATS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    task: Task
    is_default: bool
    input_tokens_max: int
    output_tokens_max: int
    dimensions: int
    labels: _containers.RepeatedScalarFieldContainer[str]
    native_tokenizer: bool
    warnings: _containers.RepeatedScalarFieldContainer[str]
    prompt_names: _containers.RepeatedScalarFieldContainer[str]
    default_prompt_name: str
    repeatable: bool
    takes_chats: bool
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., task: _Optional[_Union[Task, str]] = ..., is_default: bool = ..., input_tokens_max: _Optional[int] = ..., output_tokens_max: _Optional[int] = ..., dimensions: _Optional[int] = ..., labels: _Optional[_Iterable[str]] = ..., native_tokenizer: bool = ..., warnings: _Optional[_Iterable[str]] = ..., prompt_names: _Optional[_Iterable[str]] = ..., default_prompt_name: _Optional[str] = ..., repeatable: bool = ..., takes_chats: bool = ...) -> None: ...
