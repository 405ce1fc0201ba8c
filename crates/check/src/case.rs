//! One line that names one crash, and repeats it.

use std::fmt;
use std::str::FromStr;

use cedrat_media::Loss;

/// The name of the environment variable that makes [`crashes`](crate::crashes) run one case only: the line that a failure
/// printed.
pub const CASE_VARIABLE: &str = "CEDRAT_CASE";

/// A crash: where, and what was lost. A second one lies inside the recovery after the first, and so on.
///
/// Its text is one line, `hash seed=7 at=412/random:9 then=17/nothing`, and parses back.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The check's name, so that a line names its test.
    pub name: String,
    /// The seed of workload and schedule.
    pub seed: u64,
    /// For each crash the entries of the disk's journal before it, and the loss. The first journal is that of the workload;
    /// each further one begins with a recovery.
    pub crashes: Vec<(usize, Loss)>,
    /// What else was broken on purpose.
    pub injected: Option<Injected>,
}

/// What a check breaks besides cutting the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Injected {
    /// The n-th call to the disk is an error, once.
    Once(u64),
    /// From the n-th call on, every call is an error.
    ForEver(u64),
    /// The n-th sync is an error and forgets what it should have made durable.
    Forgets(u64),
    /// The disk takes so many more bytes and is then full.
    Full(u64),
    /// Bytes at rest are damaged, as this seed says.
    Damage(u64),
}

impl Injected {
    fn word(self) -> (&'static str, u64) {
        match self {
            Injected::Once(n) => ("once", n),
            Injected::ForEver(n) => ("ever", n),
            Injected::Forgets(n) => ("forgets", n),
            Injected::Full(n) => ("full", n),
            Injected::Damage(n) => ("damage", n),
        }
    }

    fn from_word(word: &str, n: u64) -> Option<Injected> {
        let kinds = [Injected::Once, Injected::ForEver, Injected::Forgets, Injected::Full, Injected::Damage];
        let mut all = kinds.into_iter().map(|kind| kind(n));
        all.find(|injected| injected.word().0 == word)
    }
}

impl Case {
    pub(crate) fn new(name: &str, seed: u64) -> Case {
        Case { name: name.to_string(), seed, crashes: Vec::new(), injected: None }
    }

    /// This case with something broken besides.
    pub(crate) fn with(&self, injected: Injected) -> Case {
        let mut broken = self.clone();
        broken.injected = Some(injected);
        broken
    }

    /// This case with one crash more.
    pub(crate) fn then(&self, at: usize, loss: Loss) -> Case {
        let mut longer = self.clone();
        longer.crashes.push((at, loss));
        longer
    }

    /// The case that the environment asks for, if it is one of the check of this name.
    pub(crate) fn asked_for(name: &str) -> Option<Case> {
        let line = std::env::var(CASE_VARIABLE).ok()?;
        let case: Case = line.parse().unwrap_or_else(|wrong| panic!("{CASE_VARIABLE}='{line}': {wrong}"));
        (case.name == name).then_some(case)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} seed={}", self.name, self.seed)?;
        if let Some(injected) = self.injected {
            let (word, n) = injected.word();
            write!(f, " {word}={n}")?;
        }
        for (number, (at, loss)) in self.crashes.iter().enumerate() {
            let word = if number == 0 { "at" } else { "then" };
            write!(f, " {word}={at}/{}", loss_as_text(*loss))?;
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(line: &str) -> Result<Case, String> {
        let mut words = line.split_whitespace();
        let name = words.next().ok_or("the line is empty")?;
        let mut case = Case::new(name, 0);
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not of the form key=value"))?;
            match key {
                "seed" => case.seed = number(value)?,
                "at" | "then" => {
                    let (at, loss) =
                        value.split_once('/').ok_or_else(|| format!("'{value}' is not of the form CALLS/LOSS"))?;
                    case.crashes.push((number(at)?, loss_from_text(loss)?));
                }
                _ => {
                    let injected = Injected::from_word(key, number(value)?);
                    case.injected = Some(injected.ok_or_else(|| format!("'{key}' means nothing here"))?);
                }
            }
        }
        Ok(case)
    }
}

fn loss_as_text(loss: Loss) -> String {
    match loss {
        Loss::Everything => "everything".to_string(),
        Loss::Nothing => "nothing".to_string(),
        Loss::Random(seed) => format!("random:{seed}"),
        Loss::Whole(seed) => format!("whole:{seed}"),
        Loss::TornLast(mask) => format!("torn:{mask}"),
        Loss::Subset(mask) => format!("subset:{mask}"),
    }
}

fn loss_from_text(text: &str) -> Result<Loss, String> {
    let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
    Ok(match kind {
        "everything" => Loss::Everything,
        "nothing" => Loss::Nothing,
        "random" => Loss::Random(number(argument)?),
        "whole" => Loss::Whole(number(argument)?),
        "torn" => Loss::TornLast(number(argument)?),
        "subset" => Loss::Subset(number(argument)?),
        _ => return Err(format!("'{text}' is no loss")),
    })
}

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number in range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_everything() {
        let losses = [
            Loss::Everything,
            Loss::Nothing,
            Loss::Random(u64::MAX),
            Loss::Whole(3),
            Loss::TornLast(0xff),
            Loss::Subset(5),
        ];
        for loss in losses {
            let case = Case::new("bank", 7).then(412, loss).then(17, Loss::Nothing);
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        let case = Case::new("bank", 7).with(Injected::Forgets(12));
        assert_eq!(case.to_string(), "bank seed=7 forgets=12");
        assert_eq!(case.to_string().parse(), Ok(case));
    }

    #[test]
    fn a_bad_line_is_refused_with_the_word_that_is_wrong() {
        for line in ["", "bank at", "bank at=3", "bank at=3/some", "bank at=x/nothing", "bank by=3"] {
            assert!(line.parse::<Case>().is_err(), "{line}");
        }
    }
}
