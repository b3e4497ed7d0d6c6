//! Amounts in settings, which a policy may cap.

use crate::model::ByteSize;
use std::fmt;
use std::time::Duration;

/// An amount. Only amounts of the same kind are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Amount {
    Size(ByteSize),
    Count(u64),
    Time(Duration),
}

/// Prints the amount in the form of a job file.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => size.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Time(time) => write!(f, "{} seconds", time.as_secs_f64()),
        }
    }
}

/// A setting's value that is an amount.
pub(crate) trait MeasuredSetting {
    /// The amount. `None` means no bound, which counts as more than every ceiling.
    fn amount(&self) -> Option<Amount>;

    /// Sets the amount. Does nothing if the setting holds amounts of another kind.
    fn set(&mut self, amount: Amount);
}

impl MeasuredSetting for ByteSize {
    fn amount(&self) -> Option<Amount> {
        Some(Amount::Size(*self))
    }

    fn set(&mut self, amount: Amount) {
        if let Amount::Size(size) = amount {
            *self = size;
        }
    }
}

impl MeasuredSetting for u64 {
    fn amount(&self) -> Option<Amount> {
        Some(Amount::Count(*self))
    }

    fn set(&mut self, amount: Amount) {
        if let Amount::Count(count) = amount {
            *self = count;
        }
    }
}

impl MeasuredSetting for u32 {
    fn amount(&self) -> Option<Amount> {
        Some(Amount::Count(u64::from(*self)))
    }

    fn set(&mut self, amount: Amount) {
        if let Amount::Count(count) = amount {
            *self = Self::try_from(count).unwrap_or(Self::MAX);
        }
    }
}

impl MeasuredSetting for Duration {
    fn amount(&self) -> Option<Amount> {
        Some(Amount::Time(*self))
    }

    fn set(&mut self, amount: Amount) {
        if let Amount::Time(time) = amount {
            *self = time;
        }
    }
}

/// `None` means that there is no bound.
impl<T: MeasuredSetting + Default> MeasuredSetting for Option<T> {
    fn amount(&self) -> Option<Amount> {
        self.as_ref().and_then(T::amount)
    }

    fn set(&mut self, amount: Amount) {
        let mut value = T::default();
        value.set(amount);
        *self = Some(value);
    }
}
