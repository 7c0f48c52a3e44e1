//! The names of the rules: stable, since people write them into command lines and annotations.
//!
//! Must not be here: what the rules are about (`rules`).

/// A file that cannot be read.
pub const UNREADABLE: &str = "Unreadable";
/// Text that is no YAML.
pub const INVALID_YAML: &str = "InvalidYaml";
/// Files without a sink.
pub const NO_SINK: &str = "NoSink";
/// Structure and bounds, as in the CRD.
pub const SCHEMA: &str = "Schema";
/// A CEL rule of the CRD.
pub const CEL_RULE: &str = "CelRule";
/// A value that neither schema nor CEL can judge.
pub const INVALID_VALUE: &str = "InvalidValue";
/// A Nullable column in a sorting key.
pub const NULLABLE_IN_KEY: &str = "NullableInKey";
/// A default with another value at each call.
pub const VOLATILE_DEFAULT: &str = "VolatileDefault";
/// Another expression with another value at each call.
pub const VOLATILE_EXPRESSION: &str = "VolatileExpression";
/// Two sinks of one name.
pub const SAME_NAME: &str = "SameName";
/// Two sinks in one consumer group.
pub const SHARED_GROUP: &str = "SharedGroup";
/// Two sinks on one table or view.
pub const SHARED_TABLE: &str = "SharedTable";
/// A sorting key that does not tell records apart.
pub const KEY_WITHOUT_IDENTITY: &str = "KeyWithoutIdentity";
/// The version in the sorting key.
pub const VERSION_IN_KEY: &str = "VersionInKey";
/// `_offset` or `_timestamp` in the sorting key.
pub const OFFSET_IN_KEY: &str = "OffsetInKey";
/// A partition key that copies of one key may differ in.
pub const PARTITION_NOT_OF_KEY: &str = "PartitionNotOfKey";
/// A batch that may span too many table partitions.
pub const MANY_PARTITIONS: &str = "ManyPartitions";
/// A version that may tie or wrap.
pub const VERSION_NOT_STRICT: &str = "VersionNotStrict";
/// `LowCardinality` on an id.
pub const LOW_CARDINALITY_ID: &str = "LowCardinalityId";
/// A `ReplacingMergeTree` without a flat view.
pub const REPLACING_WITHOUT_FLAT_VIEW: &str = "ReplacingWithoutFlatView";
/// A flat view that reads a `ReplacingMergeTree` as it is.
pub const PLAIN_FLAT_VIEW: &str = "PlainFlatView";
/// A SELECT with another value at each call.
pub const VOLATILE_SELECT: &str = "VolatileSelect";
/// A silenced rule that does not exist, or cannot be silenced.
pub const UNKNOWN_ALLOW: &str = "UnknownAllow";
/// A Secret that is not in the files.
pub const SECRET_NOT_HERE: &str = "SecretNotHere";
/// A document of another kind.
pub const OTHER_KIND: &str = "OtherKind";
/// No metadata columns.
pub const NO_METADATA_COLUMNS: &str = "NoMetadataColumns";
