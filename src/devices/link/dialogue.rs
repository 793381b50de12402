//! One question in flight, with its deadlines: the part of a protocol that is the same for all.

use std::time::Duration;

use crate::model::Time;

/// A question that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked<Q> {
    /// What was asked.
    pub(crate) what: Q,
    /// When.
    pub(crate) at: Time,
    last_heard: Time,
    patience: Duration,
    cap: Duration,
}

/// Holds at most one question. Knows no bytes and no clock.
#[derive(Debug, Default)]
pub(crate) struct Dialogue<Q> {
    asked: Option<Asked<Q>>,
}

impl<Q> Dialogue<Q> {
    /// No question.
    pub(crate) fn new() -> Self {
        Dialogue { asked: None }
    }

    /// Whether a question may be asked.
    pub(crate) fn is_free(&self) -> bool {
        self.asked.is_none()
    }

    /// The question in flight.
    pub(crate) fn current(&self) -> Option<&Asked<Q>> {
        self.asked.as_ref()
    }

    /// A question goes out. Between two parts of its answer `patience` may pass, in all `cap`.
    pub(crate) fn ask(&mut self, what: Q, now: Time, patience: Duration, cap: Duration) {
        self.asked = Some(Asked { what, at: now, last_heard: now, patience, cap });
    }

    /// A part of the answer has come: a long one is not late as long as it flows.
    pub(crate) fn heard(&mut self, now: Time) {
        if let Some(a) = &mut self.asked {
            a.last_heard = now;
        }
    }

    /// The answer is complete, or given up.
    pub(crate) fn finish(&mut self) -> Option<Asked<Q>> {
        self.asked.take()
    }

    /// When the question will be overdue.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.asked.as_ref().map(|a| (a.last_heard + a.patience).min(a.at + a.cap))
    }

    /// Takes the question away when it is overdue.
    pub(crate) fn overdue(&mut self, now: Time) -> Option<Asked<Q>> {
        self.deadline().filter(|d| *d <= now)?;
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_flowing_answer_is_not_late_but_has_an_end() {
        let mut d = Dialogue::new();
        d.ask("$$", Time(ms(0)), ms(500), ms(2000));
        for t in (0..1900).step_by(400) {
            d.heard(Time(ms(t)));
            assert!(d.overdue(Time(ms(t + 399))).is_none());
        }
        assert!(d.overdue(Time(ms(2000))).is_some(), "the cap holds however much flows");
        assert!(d.is_free());
    }

    #[test]
    fn silence_is_late_after_its_patience() {
        let mut d = Dialogue::new();
        d.ask("?", Time(ms(10)), ms(500), ms(2000));
        assert!(d.overdue(Time(ms(509))).is_none());
        assert_eq!(d.overdue(Time(ms(510))).unwrap().what, "?");
    }
}
