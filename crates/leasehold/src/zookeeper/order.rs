//! Who was first. ZooKeeper numbers the children of a node with a counter of 32
//! bits that wraps, so numbers are compared as serial numbers: what lies up to
//! half the circle ahead is later. In truth servers do not always come around
//! (3.8 stays at the last number); then the transactions that made the nodes
//! have to say who was first. Pure.

use std::cmp::Ordering;

/// Reads the number at the end of a node's name: ten digits, or with a sign
/// nine or ten.
pub(super) fn read(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let has_length = match text.len() - digits.len() {
        0 => digits.len() == 10,
        _ => matches!(digits.len(), 9 | 10),
    };
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    (has_length && are_digits)
        .then(|| text.parse().ok())
        .flatten()
}

/// Which of two numbers was given first.
pub(super) fn compare(one: i32, other: i32) -> Ordering {
    one.wrapping_sub(other).cmp(&0)
}

/// Whether a counter has come to its end: the server may give this number again
/// and again from then on, so that numbers say nothing of the order.
pub(super) fn is_worn(number: i32) -> bool {
    number == i32::MAX || number < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the server prints it.
    fn printed(number: i32) -> String {
        match number.is_negative() {
            true => format!("-{:09}", number.unsigned_abs()),
            false => format!("{number:010}"),
        }
    }

    #[test]
    fn the_counter_goes_on_below_zero_after_its_greatest_number() {
        assert_eq!(printed(i32::MIN), "-2147483648");
        assert_eq!(printed(-1), "-000000001");
        assert_eq!(read("-2147483648"), Some(i32::MIN));
        assert_eq!(compare(i32::MAX, i32::MIN), Ordering::Less);
        assert_eq!(compare(-1, 0), Ordering::Less);
        assert_eq!(compare(i32::MIN, i32::MAX - 5000), Ordering::Greater);
    }

    #[test]
    fn what_is_no_number_of_the_server_is_not_read() {
        for text in [
            "",
            "-",
            "1",
            "000000001",
            "00000000001",
            "+000000001",
            "-00000001",
            "9999999999",
            "00000000a1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_number_is_read_back(number: i32) {
            prop_assert_eq!(read(&printed(number)), Some(number));
        }

        #[test]
        fn a_later_number_is_later_wherever_the_counter_stands(start: i32, steps in 1..i32::MAX) {
            let later = start.wrapping_add(steps);
            prop_assert_eq!(compare(start, later), Ordering::Less);
            prop_assert_eq!(compare(later, start), Ordering::Greater);
        }

        #[test]
        fn a_queue_in_any_order_is_sorted_as_it_was_made(
            start: i32, mut steps in prop::collection::vec(0..1_000_000, 1..50), seed: usize,
        ) {
            steps.sort_unstable();
            steps.dedup();
            let made: Vec<i32> = steps.iter().map(|step| start.wrapping_add(*step)).collect();
            let mut mixed = made.clone();
            mixed.rotate_left(seed % made.len());
            mixed.sort_by(|one, other| compare(*one, *other));
            prop_assert_eq!(mixed, made);
        }
    }
}
