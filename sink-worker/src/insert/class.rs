//! What an INSERT's failure means, by ClickHouse's error code, never by HTTP status.
//!
//! Pure. Must not be here: retrying (that is `insert/job.rs`), the client.

/// What to do after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// No answer, or a broken one: the rows may or may not be there. Same bytes, same token, again.
    OutcomeUnknown,
    /// Overload, read-only, Keeper, quota, too many parts: again, same bytes, same token.
    Retry,
    /// The server refuses us: a configuration fault, never a record's. Again, slowly, held with a reason.
    Unauthorized,
    /// A setting that the promise needs is forbidden by a profile, or the request is not understood.
    Configuration,
    /// The table may not be what we think: check it, then hold or go on.
    TableCheck,
    /// A record is refused by a constraint: split down to it, if a fresh check says that the table is as declared.
    RecordFault,
    /// A materialized view on the table failed: held until it is mended.
    MaterializedView,
    /// Anything else: held and retried, never dropped.
    Unknown,
}

impl FailureClass {
    /// CamelCase reason, for holds, metrics and logs.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::OutcomeUnknown => "InsertOutcomeUnknown",
            Self::Retry => "ClickHouseBusy",
            Self::Unauthorized => "Unauthorized",
            Self::Configuration => "InsertRefused",
            Self::TableCheck => "TableNotAsDeclared",
            Self::RecordFault => "RecordRefused",
            Self::MaterializedView => "MaterializedViewFailed",
            Self::Unknown => "UnknownError",
        }
    }

    /// True where the same failure will not go away by waiting alone: readiness says so at once.
    #[must_use]
    pub const fn is_hold(self) -> bool {
        !matches!(self, Self::OutcomeUnknown | Self::Retry)
    }
}

/// A failed attempt: the server's code where it gave one, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it means.
    pub class: FailureClass,
    /// ClickHouse's error code.
    pub code: Option<u32>,
    /// The server's or the client's text, cut to a length fit for a log line.
    pub message: String,
}

/// Codes that refuse an INSERT before its first row is written.
///
/// A block's checks come before its parts: constraints, types, names, rights, settings. What can also fail while the
/// parts of several table partitions are written one by one (memory, expressions of an index) is not here.
const REFUSED_AT_ONCE: [u32; 19] = [
    16, 60, 62, 73, 81, 115, 117, 164, 192, 193, 194, 195, 202, 452, 469, 492, 497, 511, 516,
];

/// Codes of settings that a profile forbids.
const FORBIDDEN_SETTING: [u32; 2] = [164, 452];

/// Longest text of the server's that goes into a message, in bytes.
const MESSAGE_BYTES: usize = 500;

impl Failure {
    /// Classifies what the server answered.
    #[must_use]
    pub fn answered(text: &str) -> Self {
        let code = parse_error_code(text);
        Self {
            class: code.map_or(FailureClass::OutcomeUnknown, |code| classify(code, text)),
            code,
            message: with_remedy(code, shorten(text)),
        }
    }

    /// True where nothing of the attempt can be in the table, neither now nor later; false: nobody knows.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        let in_view = self.class == FailureClass::MaterializedView;
        !in_view
            && self
                .code
                .is_some_and(|code| REFUSED_AT_ONCE.contains(&code))
    }

    /// An attempt without a usable answer.
    #[must_use]
    pub fn no_answer(text: &str) -> Self {
        Self {
            class: FailureClass::OutcomeUnknown,
            code: None,
            message: shorten(text),
        }
    }
}

/// A profile that forbids a setting is mended by people, who are told how.
fn with_remedy(code: Option<u32>, message: String) -> String {
    if code.is_some_and(|code| FORBIDDEN_SETTING.contains(&code)) {
        return format!(
            "{message}; the sink's promise needs this setting: let the profile of the sink's user allow it, writes go on by \
             themselves then"
        );
    }
    message
}

fn shorten(text: &str) -> String {
    let mut end = text.len().min(MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim().to_owned()
}

/// The first `Code: N` of a text.
#[must_use]
pub fn parse_error_code(text: &str) -> Option<u32> {
    let digits = text.split_once("Code: ")?.1;
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// The class of a code, with the words that change its meaning.
#[must_use]
pub fn classify(code: u32, text: &str) -> FailureClass {
    if text.contains("while pushing to view") {
        return class_in_view(code);
    }
    match code {
        469 => FailureClass::RecordFault,
        117 if text.contains("JSON") => FailureClass::RecordFault,
        252 if text.contains("Too many partitions") => FailureClass::Configuration,
        192..=195 | 492 | 497 | 511 | 512 | 516 => FailureClass::Unauthorized,
        // Missing table or column; and the data codes, which on a Native block mean drift or our bug.
        16 | 60 | 81 | 10 | 8 | 218 | 6 | 7 | 26 | 27 | 33 | 38 | 41 | 53 | 69 | 70 | 72 | 117
        | 128 | 131 | 190 | 321 | 349 | 407 | 441 | 467 | 691 => FailureClass::TableCheck,
        115 | 164 | 452 | 62 | 73 | 48 | 36 | 44 | 20 | 344 | 524 | 271 => {
            FailureClass::Configuration
        }
        _ if is_retryable(code) => FailureClass::Retry,
        _ => FailureClass::Unknown,
    }
}

/// Overload inside a view is still overload; a view's own fault is held and named.
fn class_in_view(code: u32) -> FailureClass {
    if is_retryable(code) {
        FailureClass::Retry
    } else {
        FailureClass::MaterializedView
    }
}

/// Codes that go away by themselves: timeouts, network, overload, Keeper, shutdown.
fn is_retryable(code: u32) -> bool {
    matches!(
        code,
        3 | 23
            | 24
            | 95
            | 96
            | 159
            | 160
            | 173
            | 198
            | 201
            | 202
            | 203
            | 209
            | 210
            | 216
            | 225
            | 236
            | 241
            | 242
            | 243
            | 244
            | 252
            | 254
            | 279
            | 285
            | 286
            | 319
            | 394
            | 425
            | 439
            | 473
            | 499
            | 517
            | 999
            | 1000
            | 1001
            | 1002
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> FailureClass {
        Failure::answered(text).class
    }

    #[test]
    fn overload_is_retried_and_a_missing_table_is_looked_at() {
        assert_eq!(
            class("Code: 252. DB::Exception: Too many parts (3000)"),
            FailureClass::Retry
        );
        assert_eq!(
            class("Code: 60. DB::Exception: Table ops.t does not exist"),
            FailureClass::TableCheck
        );
        assert_eq!(
            class("Code: 516. DB::Exception: default: Authentication failed"),
            FailureClass::Unauthorized
        );
    }

    #[test]
    fn only_the_closed_list_is_a_records_fault() {
        let faults: Vec<u32> = (0..2000)
            .filter(|code| classify(*code, "") == FailureClass::RecordFault)
            .collect();
        assert_eq!(faults, [469]);
        assert_eq!(
            class("Code: 117. DB::Exception: Cannot parse JSON object"),
            FailureClass::RecordFault
        );
        assert_eq!(
            class("Code: 117. DB::Exception: Unknown field"),
            FailureClass::TableCheck
        );
    }

    #[test]
    fn a_constraint_inside_a_view_is_the_views_fault() {
        let text =
            "Code: 469. DB::Exception: Constraint is violated: while pushing to view ops.mv (…)";
        assert_eq!(class(text), FailureClass::MaterializedView);
        assert_eq!(
            class("Code: 241. DB::Exception: memory: while pushing to view ops.mv"),
            FailureClass::Retry
        );
    }

    #[test]
    fn an_answer_without_a_code_leaves_the_outcome_open() {
        assert_eq!(class("502 Bad Gateway"), FailureClass::OutcomeUnknown);
        assert_eq!(Failure::answered("").class, FailureClass::OutcomeUnknown);
    }

    #[test]
    fn a_code_nobody_listed_is_held_not_dropped() {
        assert_eq!(
            class("Code: 123456. DB::Exception: new"),
            FailureClass::Unknown
        );
        assert!(FailureClass::Unknown.is_hold());
    }

    #[test]
    fn only_what_is_refused_before_the_first_row_is_definite() {
        let definite = |text: &str| Failure::answered(text).is_definite();
        for code in [469, 60, 115, 164, 452, 497, 516, 202, 16] {
            assert!(
                definite(&format!("Code: {code}. DB::Exception: no")),
                "{code}"
            );
        }
        assert!(definite(
            "Code: 117. DB::Exception: Cannot parse JSON object"
        ));
        for code in [
            159, 209, 210, 319, 394, 241, 243, 252, 999, 1000, 3, 131, 123_456,
        ] {
            assert!(
                !definite(&format!("Code: {code}. DB::Exception: no")),
                "{code}"
            );
        }
        assert!(!definite(
            "Code: 469. DB::Exception: while pushing to view ops.mv"
        ));
        assert!(!definite("502 Bad Gateway"));
        assert!(!Failure::no_answer("timed out").is_definite());
    }

    #[test]
    fn a_forbidden_setting_comes_with_its_remedy() {
        let failure = Failure::answered("Code: 452. DB::Exception: Setting async_insert");
        assert_eq!(failure.class, FailureClass::Configuration);
        assert!(failure.message.contains("let the profile"));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let text = format!("Code: 60. {}", "é".repeat(1000));
        assert!(Failure::answered(&text).message.len() <= MESSAGE_BYTES);
    }
}
