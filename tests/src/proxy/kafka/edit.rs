//! Replies that say something else than the broker did.
//!
//! Pure. Must not be here: which replies are changed, when.

/// Length, correlation id, the head's (empty) tags, throttle time.
const HEAD_OF_COMMIT: usize = 4 + 4 + 1 + 4;

/// Puts an error beside every partition of the reply to an `OffsetCommit` (version 8 or 9); `None` where it is not one.
pub(super) fn refuse_commit(mut frame: Vec<u8>, code: i16) -> Option<Vec<u8>> {
    let mut at = HEAD_OF_COMMIT;
    let topics = read_length(&frame, &mut at)?;
    for _ in 0..topics {
        at += read_length(&frame, &mut at)?;
        let partitions = read_length(&frame, &mut at)?;
        for _ in 0..partitions {
            // The partition's number, its error, its (empty) tags.
            let error = frame.get_mut(at + 4..at + 6)?;
            error.copy_from_slice(&code.to_be_bytes());
            at += 7;
        }
        at += 1;
    }
    (frame.len() == at + 1).then_some(frame)
}

/// Length of a compact array or string: a variable-length number, one more than it.
fn read_length(frame: &[u8], at: &mut usize) -> Option<usize> {
    let (mut value, mut shift) = (0_usize, 0);
    loop {
        let byte = *frame.get(*at)?;
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value.checked_sub(1);
        }
        shift += 7;
        if shift > 28 {
            return None;
        }
    }
}

/// Replaces each of these texts by as many dashes.
pub(super) fn blank(mut frame: Vec<u8>, text: &[u8]) -> Vec<u8> {
    let places: Vec<usize> = frame
        .windows(text.len())
        .enumerate()
        .filter(|(_, window)| *window == text)
        .map(|(at, _)| at)
        .collect();
    for at in places {
        if let Some(place) = frame.get_mut(at..at + text.len()) {
            place.fill(b'-');
        }
    }
    frame
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Two topics with two partitions and one, all without error.
    fn reply() -> Vec<u8> {
        let mut frame = vec![0; HEAD_OF_COMMIT];
        frame.push(3);
        for (name, partitions) in [("events", 2_u8), ("x", 1)] {
            frame.push(u8::try_from(name.len() + 1).unwrap());
            frame.extend(name.as_bytes());
            frame.push(partitions + 1);
            for partition in 0..partitions {
                frame.extend([0, 0, 0, partition, 0, 0, 0]);
            }
            frame.push(0);
        }
        frame.push(0);
        frame
    }

    #[test]
    fn every_partition_of_a_reply_gets_the_error_and_nothing_else_changes() {
        let refused = refuse_commit(reply(), 30).unwrap();
        let differences: Vec<(usize, u8)> = reply()
            .into_iter()
            .zip(refused.iter().copied())
            .enumerate()
            .filter(|(_, (before, after))| before != after)
            .map(|(at, (_, after))| (at, after))
            .collect();
        assert_eq!(differences, [(27, 30), (34, 30), (45, 30)]);
        assert_eq!(refused.len(), reply().len());
    }

    #[test]
    fn what_is_no_such_reply_is_not_changed() {
        let mut longer = reply();
        longer.push(0);
        assert_eq!(refuse_commit(longer, 30), None);
        assert_eq!(refuse_commit(vec![0; 5], 30), None);
    }

    #[test]
    fn a_text_is_blanked_wherever_it_stands() {
        let frame = blank(b"\0\x04cs1;s=3;cs1;".to_vec(), b"cs1;");
        assert_eq!(frame, b"\0\x04----s=3;----");
    }
}
