//! Which report answers which `?`. GRBL's reports carry no number, so that a report is taken for the answer to
//! the oldest question that may still be open: its age is then never told younger than it is.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::Time;

/// How long a question may stay unanswered until the next one is asked.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long all may stay unanswered until nobody is thought to be there.
const DEAF: Duration = Duration::from_secs(3);
/// After this a report that was missed is not expected any more.
const LOST: Duration = Duration::from_secs(3);
/// Without a report for so long, while one is missed and nothing moves, it is taken for lost.
const HUSH: Duration = Duration::from_secs(1);

/// The questions that have not been answered.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// When each was asked, the oldest first.
    open: VecDeque<Time>,
    /// When the newest was asked, as far as patience goes.
    newest: Time,
    /// Whether something was heard since the newest was asked.
    heard: bool,
    last_heard: Time,
    /// Since when nothing but silence answers.
    silent: Option<Time>,
    counted: bool,
}

impl Questions {
    /// Whether the next question may be asked now. One is open at a time, as GRBL melts several into one
    /// report; while one is missed and the axes move, the next is asked all the same.
    pub(super) fn may_ask(&mut self, now: Time, moving: bool) -> bool {
        if self.open.is_empty() {
            return true;
        }
        if !self.heard {
            return now >= self.newest + PATIENCE;
        }
        if !moving && now >= self.last_heard + HUSH {
            self.open.clear();
        }
        moving || self.open.is_empty()
    }

    /// When the newest was asked.
    pub(super) fn newest(&self) -> Time {
        self.newest
    }

    /// A question goes out.
    pub(super) fn ask(&mut self, now: Time) {
        self.open.retain(|t| now.since(*t) < LOST);
        self.open.push_back(now);
        self.newest = now;
        self.heard = false;
        self.counted = false;
        self.silent.get_or_insert(now);
    }

    /// A report has come: tells when it was asked for at the earliest; `None` when nobody had asked.
    pub(super) fn answer(&mut self, now: Time) -> Option<Time> {
        self.damaged(now);
        self.silent = None;
        self.open.pop_front()
    }

    /// Something has come that may have been a report. It answers nothing, but the next may be asked for.
    pub(super) fn damaged(&mut self, now: Time) {
        self.heard = true;
        self.last_heard = now;
    }

    /// Silence so far was right (a homing): patience begins anew.
    pub(super) fn forgive(&mut self, now: Time) {
        self.newest = now;
        if self.silent.is_some() {
            self.silent = Some(now);
        }
    }

    /// Whether the newest has become overdue; told once for each.
    pub(super) fn overdue(&mut self, now: Time) -> bool {
        let late = !self.open.is_empty() && !self.heard && now >= self.newest + PATIENCE;
        late && !std::mem::replace(&mut self.counted, true)
    }

    /// For how long nobody has answered, when that is too long.
    pub(super) fn deaf(&self, now: Time) -> Option<Duration> {
        let silent = now.since(self.silent?);
        (silent >= DEAF).then_some(silent)
    }

    /// When there is something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.open.front()?;
        Some(if self.heard { self.last_heard + HUSH } else { self.newest + PATIENCE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time(Duration::from_millis(n))
    }

    #[test]
    fn a_late_report_keeps_the_age_of_its_own_question() {
        let mut q = Questions::default();
        q.ask(ms(0));
        assert!(!q.may_ask(ms(499), true) && !q.overdue(ms(499)));
        assert!(q.may_ask(ms(500), true) && q.overdue(ms(500)));
        q.ask(ms(500));
        assert_eq!(q.answer(ms(550)), Some(ms(0)), "the late one");
        assert_eq!(q.answer(ms(560)), Some(ms(500)));
        assert_eq!(q.answer(ms(570)), None, "nobody had asked");
    }

    #[test]
    fn a_report_that_is_lost_makes_the_next_seem_older_and_never_younger_until_a_hush_settles_it() {
        let mut q = Questions::default();
        q.ask(ms(0));
        q.ask(ms(500));
        assert_eq!(q.answer(ms(503)), Some(ms(0)));
        assert!(q.may_ask(ms(540), true), "axes that move are watched on");
        q.ask(ms(540));
        assert_eq!(q.answer(ms(543)), Some(ms(500)));
        assert!(!q.may_ask(ms(1542), false));
        assert!(q.may_ask(ms(1543), false));
        q.ask(ms(1543));
        assert_eq!(q.answer(ms(1546)), Some(ms(1543)));
    }

    #[test]
    fn silence_is_told_once_a_question_and_counts_from_the_first() {
        let mut q = Questions::default();
        q.ask(ms(0));
        assert!(q.overdue(ms(500)) && !q.overdue(ms(501)));
        for t in (500..3000).step_by(500) {
            assert_eq!(q.deaf(ms(t)), None);
            q.ask(ms(t));
            q.damaged(ms(t + 3));
        }
        assert!(q.deaf(ms(3000)).is_some());
        q.answer(ms(3001));
        assert_eq!(q.deaf(ms(9000)), None);
    }
}
