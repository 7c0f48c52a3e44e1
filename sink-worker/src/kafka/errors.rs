//! Error codes of Kafka and librdkafka, and what each means for a commit.
//!
//! Must not be here: calls that can fail, retries themselves.

use std::fmt;

use super::ffi;

/// An error code as librdkafka numbers it: below 0 its own, above 0 the broker's.
///
/// Kept as a number, since a newer broker answers with codes that this build does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl ErrorCode { $($(#[$doc])* pub const $name: Self = Self($code);)* }
    };
}

codes! {
    /// A message with an impossible format.
    BAD_MSG = -199;
    /// A batch that could not be decompressed.
    BAD_COMPRESSION = -198;
    /// The client is going away.
    DESTROY = -197;
    /// The connection broke.
    TRANSPORT = -195;
    /// A host name could not be resolved.
    RESOLVE = -193;
    /// The end of the partition was reached.
    PARTITION_EOF = -191;
    /// No broker is reachable.
    ALL_BROKERS_DOWN = -187;
    /// librdkafka's own time-out.
    TIMED_OUT = -185;
    /// No coordinator of the group is known.
    WAIT_COORD = -180;
    /// The call does not fit the client's state.
    STATE = -172;
    /// Something that this build has no code for, for example a compression.
    NOT_IMPLEMENTED = -170;
    /// Nothing to commit.
    NO_OFFSET = -168;
    /// Not supported by the broker.
    UNSUPPORTED_FEATURE = -165;
    /// The client had a fatal error before.
    FATAL = -150;
    /// The application did not poll for longer than `max.poll.interval.ms`.
    MAX_POLL_EXCEEDED = -147;
    /// Another instance took this one's identity.
    FENCED = -144;
    /// The partitions were given to another member.
    ASSIGNMENT_LOST = -142;
    /// The position does not exist, and no rule says which other to take.
    AUTO_OFFSET_RESET = -140;
    /// No error.
    NO_ERROR = 0;
    /// The broker has no record at that offset.
    OFFSET_OUT_OF_RANGE = 1;
    /// No such topic or partition.
    UNKNOWN_TOPIC_OR_PART = 3;
    /// The partition has no leader.
    LEADER_NOT_AVAILABLE = 5;
    /// Asked the wrong broker.
    NOT_LEADER_FOR_PARTITION = 6;
    /// The broker's time-out.
    REQUEST_TIMED_OUT = 7;
    /// The metadata of a commit is longer than the broker allows.
    OFFSET_METADATA_TOO_LARGE = 12;
    /// The broker lost a connection.
    NETWORK_EXCEPTION = 13;
    /// The coordinator is still reading its log.
    COORDINATOR_LOAD_IN_PROGRESS = 14;
    /// There is no coordinator at the moment.
    COORDINATOR_NOT_AVAILABLE = 15;
    /// Asked the wrong coordinator.
    NOT_COORDINATOR = 16;
    /// Too few in-sync replicas.
    NOT_ENOUGH_REPLICAS = 19;
    /// Too few in-sync replicas, after the write.
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20;
    /// The generation is not the group's.
    ILLEGAL_GENERATION = 22;
    /// The group id is not valid.
    INVALID_GROUP_ID = 24;
    /// The group does not know this member.
    UNKNOWN_MEMBER_ID = 25;
    /// A rebalance is going on.
    REBALANCE_IN_PROGRESS = 27;
    /// The commit is too large.
    INVALID_COMMIT_OFFSET_SIZE = 28;
    /// The topic may not be read.
    TOPIC_AUTHORIZATION_FAILED = 29;
    /// The group may not be used.
    GROUP_AUTHORIZATION_FAILED = 30;
    /// The cluster may not be described.
    CLUSTER_AUTHORIZATION_FAILED = 31;
    /// The broker's disk failed.
    KAFKA_STORAGE_ERROR = 56;
    /// The credentials were refused.
    SASL_AUTHENTICATION_FAILED = 58;
    /// There is no such group.
    GROUP_ID_NOT_FOUND = 69;
    /// Another member took this instance id.
    FENCED_INSTANCE_ID = 82;
    /// The broker holds too many requests back.
    THROTTLING_QUOTA_EXCEEDED = 89;
    /// Another member holds the instance id.
    UNRELEASED_INSTANCE_ID = 111;
    /// The member was fenced by epoch.
    FENCED_MEMBER_EPOCH = 110;
    /// The member's epoch is behind.
    STALE_MEMBER_EPOCH = 113;
}

impl ErrorCode {
    /// Kafka's name of the code, such as `ILLEGAL_GENERATION`; codes that this build does not know read `ERR_<number>?`.
    #[must_use]
    pub fn name(self) -> String {
        ffi::code_name(self.0)
    }

    /// Whether a look-up that failed with it can succeed when it is simply asked again, after a pause.
    #[must_use]
    pub fn is_transient(self) -> bool {
        self.is_informational()
            || matches!(
                self,
                Self::WAIT_COORD
                    | Self::LEADER_NOT_AVAILABLE
                    | Self::NOT_LEADER_FOR_PARTITION
                    | Self::REQUEST_TIMED_OUT
                    | Self::NETWORK_EXCEPTION
                    | Self::COORDINATOR_LOAD_IN_PROGRESS
                    | Self::COORDINATOR_NOT_AVAILABLE
                    | Self::NOT_COORDINATOR
                    | Self::THROTTLING_QUOTA_EXCEEDED
            )
    }

    /// Whether librdkafka goes on by itself, so that the event only informs.
    #[must_use]
    pub fn is_informational(self) -> bool {
        matches!(
            self,
            Self::TRANSPORT | Self::RESOLVE | Self::ALL_BROKERS_DOWN | Self::TIMED_OUT
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Says a code in words, for people.
#[must_use]
pub fn describe_code(code: ErrorCode) -> String {
    ffi::code_text(code.0)
}

/// What to do after a commit was answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitErrorClass {
    /// Back off and send the same bytes again; it may have been applied.
    RetrySame,
    /// A rebalance is going on: send the same bytes again once it is over, if the partition is still ours.
    WaitRebalance,
    /// The membership is lost: send nothing any more for these partitions, wait for the revocation.
    Lost,
    /// This consumer is dead: make a new one.
    Fatal,
    /// A person has to change something (rights, limits, a missing topic): hold.
    Config,
}

/// Classes the error of a commit. A code that nobody listed is retried: an unknown error holds, it never drops.
#[must_use]
pub fn commit_error_class(code: ErrorCode) -> CommitErrorClass {
    match code {
        ErrorCode::REBALANCE_IN_PROGRESS
        | ErrorCode::ILLEGAL_GENERATION
        | ErrorCode::STALE_MEMBER_EPOCH => CommitErrorClass::WaitRebalance,
        ErrorCode::UNKNOWN_MEMBER_ID
        | ErrorCode::FENCED_MEMBER_EPOCH
        | ErrorCode::GROUP_ID_NOT_FOUND
        | ErrorCode::ASSIGNMENT_LOST => CommitErrorClass::Lost,
        ErrorCode::FENCED_INSTANCE_ID
        | ErrorCode::UNRELEASED_INSTANCE_ID
        | ErrorCode::FATAL
        | ErrorCode::FENCED
        | ErrorCode::DESTROY => CommitErrorClass::Fatal,
        ErrorCode::OFFSET_METADATA_TOO_LARGE
        | ErrorCode::INVALID_COMMIT_OFFSET_SIZE
        | ErrorCode::GROUP_AUTHORIZATION_FAILED
        | ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
        | ErrorCode::INVALID_GROUP_ID
        | ErrorCode::NO_OFFSET
        | ErrorCode::UNKNOWN_TOPIC_OR_PART => CommitErrorClass::Config,
        _ => CommitErrorClass::RetrySame,
    }
}

/// Why a call into the client was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KafkaError {
    /// A setting is unknown or has a bad value. The value is not repeated: it may be a secret.
    #[error("kafka setting `{name}` is refused: {text}; correct or remove it")]
    Setting {
        /// Name of the setting.
        name: String,
        /// What is wrong with it.
        text: String,
    },
    /// librdkafka refused a call.
    #[error("kafka client refused to {what}: {text} ({code})")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// The code.
        code: ErrorCode,
        /// librdkafka's text.
        text: String,
    },
    /// A commit was to be sent before the group was joined, or after the membership was lost. Nothing was sent.
    #[error(
        "nothing was committed: this consumer is no member of its group now (generation {generation}); wait for the next assignment"
    )]
    NotAMember {
        /// The generation that the client knows, below 0 where it knows none.
        generation: i32,
    },
    /// An argument that Kafka cannot take, such as a topic name with a NUL or an offset below 0.
    #[error("kafka request is impossible: {0}")]
    Impossible(String),
    /// The time was over before the broker answered.
    #[error("kafka did not answer in time to {what}")]
    TimedOut {
        /// What was to be done.
        what: &'static str,
    },
}

impl KafkaError {
    /// A word for metrics, events and conditions.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Setting { .. } => "KafkaSettingRefused",
            Self::Refused { .. } => "KafkaRefused",
            Self::NotAMember { .. } => "NotAMember",
            Self::Impossible(_) => "KafkaRequestImpossible",
            Self::TimedOut { .. } => "KafkaTimedOut",
        }
    }

    /// Whether the same call can succeed later without anybody changing anything.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::NotAMember { .. } | Self::TimedOut { .. } => true,
            Self::Refused { code, .. } => code.is_informational(),
            Self::Setting { .. } | Self::Impossible(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_that_librdkafka_gives_them() {
        for (code, name) in [
            (ErrorCode::AUTO_OFFSET_RESET, "_AUTO_OFFSET_RESET"),
            (ErrorCode::ASSIGNMENT_LOST, "_ASSIGNMENT_LOST"),
            (ErrorCode::MAX_POLL_EXCEEDED, "_MAX_POLL_EXCEEDED"),
            (ErrorCode::FENCED, "_FENCED"),
            (ErrorCode::NOT_IMPLEMENTED, "_NOT_IMPLEMENTED"),
            (ErrorCode::UNSUPPORTED_FEATURE, "_UNSUPPORTED_FEATURE"),
            (ErrorCode::STATE, "_STATE"),
            (ErrorCode::NO_OFFSET, "_NO_OFFSET"),
            (ErrorCode::FATAL, "_FATAL"),
            (ErrorCode::WAIT_COORD, "_WAIT_COORD"),
            (
                ErrorCode::OFFSET_METADATA_TOO_LARGE,
                "OFFSET_METADATA_TOO_LARGE",
            ),
            (ErrorCode::ILLEGAL_GENERATION, "ILLEGAL_GENERATION"),
            (ErrorCode::UNKNOWN_MEMBER_ID, "UNKNOWN_MEMBER_ID"),
            (ErrorCode::REBALANCE_IN_PROGRESS, "REBALANCE_IN_PROGRESS"),
            (
                ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
                "INVALID_COMMIT_OFFSET_SIZE",
            ),
            (ErrorCode::GROUP_ID_NOT_FOUND, "GROUP_ID_NOT_FOUND"),
            (ErrorCode::FENCED_INSTANCE_ID, "FENCED_INSTANCE_ID"),
            (ErrorCode::UNRELEASED_INSTANCE_ID, "UNRELEASED_INSTANCE_ID"),
            (ErrorCode::FENCED_MEMBER_EPOCH, "FENCED_MEMBER_EPOCH"),
            (ErrorCode::STALE_MEMBER_EPOCH, "STALE_MEMBER_EPOCH"),
            (
                ErrorCode::THROTTLING_QUOTA_EXCEEDED,
                "THROTTLING_QUOTA_EXCEEDED",
            ),
            (ErrorCode::KAFKA_STORAGE_ERROR, "KAFKA_STORAGE_ERROR"),
            (
                ErrorCode::SASL_AUTHENTICATION_FAILED,
                "SASL_AUTHENTICATION_FAILED",
            ),
        ] {
            assert_eq!(code.name(), name);
        }
    }

    #[test]
    fn a_code_of_a_newer_broker_has_a_name_and_is_retried() {
        assert_eq!(ErrorCode(4711).name(), "ERR_4711?");
        assert_eq!(
            commit_error_class(ErrorCode(4711)),
            CommitErrorClass::RetrySame
        );
    }

    #[test]
    fn a_rebalance_is_waited_for_and_a_lost_membership_is_not_retried() {
        use CommitErrorClass::{Config, Fatal, Lost, RetrySame, WaitRebalance};
        for (code, class) in [
            (ErrorCode::ILLEGAL_GENERATION, WaitRebalance),
            (ErrorCode::REBALANCE_IN_PROGRESS, WaitRebalance),
            (ErrorCode::UNKNOWN_MEMBER_ID, Lost),
            (ErrorCode::FENCED_INSTANCE_ID, Fatal),
            (ErrorCode::OFFSET_METADATA_TOO_LARGE, Config),
            (ErrorCode::UNKNOWN_TOPIC_OR_PART, Config),
            (ErrorCode::WAIT_COORD, RetrySame),
            (ErrorCode::REQUEST_TIMED_OUT, RetrySame),
            (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, RetrySame),
        ] {
            assert_eq!(commit_error_class(code), class, "{code}");
        }
    }

    #[test]
    fn a_missing_coordinator_is_asked_again_and_a_missing_right_is_not() {
        assert!(ErrorCode::NOT_COORDINATOR.is_transient() && ErrorCode::TRANSPORT.is_transient());
        assert!(!ErrorCode::GROUP_AUTHORIZATION_FAILED.is_transient());
        assert!(!ErrorCode::UNKNOWN_TOPIC_OR_PART.is_transient());
    }

    #[test]
    fn a_refused_setting_says_its_name_and_what_to_do() {
        let error = KafkaError::Setting {
            name: "sasl.password".into(),
            text: "bad value".into(),
        };
        assert_eq!(error.reason(), "KafkaSettingRefused");
        assert_eq!(
            error.to_string(),
            "kafka setting `sasl.password` is refused: bad value; correct or remove it"
        );
    }
}
