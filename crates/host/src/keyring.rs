//! The user's keyring: the desktop's if its program is installed and answers, otherwise the kernel's.
//!
//! The kernel keeps keys in unswappable memory, and forgets them when the user logs out or the
//! machine restarts.

use std::{ffi::CString, io, time::Duration};

use hothouse_model::{Explain, FailureKind, secret::SecretValue};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::{Program, RunError, files, sys};

/// The program from libsecret, which accesses the desktop's keyring.
const DESKTOP: &str = "secret-tool";

/// The timeout for the desktop's keyring, which may prompt its user to unlock it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The maximum size of a value in the kernel's keyring.
const KERNEL_MOST: usize = 32_767;

/// Stores secrets for a user.
pub trait Keyring: Send + Sync {
    /// Stores a value, replacing any with the same name.
    fn set(&self, name: &str, value: &SecretValue) -> Result<(), KeyringError>;

    /// Returns a value, if stored.
    fn get(&self, name: &str) -> Result<Option<SecretValue>, KeyringError>;

    /// Removes a value; returns whether it existed.
    fn remove(&self, name: &str) -> Result<bool, KeyringError>;
}

/// A keyring operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("this host has no usable keyring")]
    None(#[source] io::Error),
    #[error("the value is too long for the kernel's keyring")]
    TooLong,
    #[error("the keyring entry was not written by Hothouse")]
    Strange,
}

impl Explain for KeyringError {
    fn kind(&self) -> FailureKind {
        FailureKind::Host
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::None(_) | Self::TooLong => {
                vec!["`--from file` stores the value in a file that only you can read".into()]
            }
            Self::Strange => vec!["set the secret again".into()],
        }
    }
}

/// The keyring of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostKeyring;

impl Keyring for HostKeyring {
    fn set(&self, name: &str, value: &SecretValue) -> Result<(), KeyringError> {
        if desktop_set(name, value) {
            return Ok(());
        }
        kernel_set(name, value)
    }

    fn get(&self, name: &str) -> Result<Option<SecretValue>, KeyringError> {
        match desktop_get(name) {
            Some(value) => Ok(Some(value)),
            None => kernel_get(name),
        }
    }

    fn remove(&self, name: &str) -> Result<bool, KeyringError> {
        let desktop = desktop(&["clear"], name).run_within(PATIENCE);
        let cleared = desktop.is_ok_and(|run| run.status.success());
        Ok(kernel_remove(name)? || cleared)
    }
}

fn desktop(words: &[&str], name: &str) -> Program {
    Program::new(DESKTOP).args(words).args(["service", "hothouse", "name", name])
}

/// Stores a value in the desktop's keyring. The value is passed on standard input.
fn desktop_set(name: &str, value: &SecretValue) -> bool {
    let Ok(input) = files::memory(value.expose().as_bytes()) else { return false };
    let label = format!("--label=Hothouse: {name}");
    let kept = desktop(&["store", &label], name).stdin(input).run_within(PATIENCE);
    kept.is_ok_and(|run| run.status.success())
}

fn desktop_get(name: &str) -> Option<SecretValue> {
    match desktop(&["lookup"], name).run_within(PATIENCE) {
        Ok(run) if run.status.success() => SecretValue::from_bytes(run.stdout).ok(),
        Ok(_) | Err(RunError::Missing { .. }) => None,
        Err(error) => {
            tracing::debug!(%error, "the desktop's keyring did not answer");
            None
        }
    }
}

fn text(name: &str) -> Result<CString, KeyringError> {
    CString::new(format!("hothouse:{name}")).map_err(|_| KeyringError::Strange)
}

fn kernel_set(name: &str, value: &SecretValue) -> Result<(), KeyringError> {
    let bytes = value.expose().as_bytes();
    if bytes.len() > KERNEL_MOST {
        return Err(KeyringError::TooLong);
    }
    let key = sys::add_key(&text(name)?, bytes).map_err(KeyringError::None)?;
    sys::open_key_to_user(key).map_err(KeyringError::None)?;
    // Where namespaces interfere, the kernel may accept a key but not return it.
    match kernel_get(name)? {
        Some(kept) if kept == *value => Ok(()),
        _ => Err(KeyringError::None(io::ErrorKind::Unsupported.into())),
    }
}

fn find(name: &str) -> Result<Option<libc::c_long>, KeyringError> {
    match sys::find_key(&text(name)?) {
        Ok(key) => Ok(Some(key)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(KeyringError::None(error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    let absent = [Errno::NOKEY, Errno::KEYREVOKED, Errno::KEYEXPIRED];
    absent.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn kernel_get(name: &str) -> Result<Option<SecretValue>, KeyringError> {
    let Some(key) = find(name)? else { return Ok(None) };
    let mut buffer = Zeroizing::new(vec![0; KERNEL_MOST]);
    let length = sys::read_key(key, &mut buffer).map_err(KeyringError::None)?;
    let value = buffer.get(..length).ok_or(KeyringError::Strange)?.to_vec();
    SecretValue::from_bytes(value).map(Some).map_err(|_| KeyringError::Strange)
}

fn kernel_remove(name: &str) -> Result<bool, KeyringError> {
    let Some(key) = find(name)? else { return Ok(false) };
    sys::unlink_key(key).map_err(KeyringError::None)?;
    Ok(true)
}

/// A keyring in memory, which can be configured to be missing.
pub mod fakes {
    use std::{
        collections::BTreeMap,
        sync::{Mutex, PoisonError},
    };

    use super::{Keyring, KeyringError, SecretValue};

    /// An in-memory [`Keyring`].
    #[derive(Debug, Default)]
    pub struct FakeKeyring {
        kept: Mutex<BTreeMap<String, SecretValue>>,
        /// Simulates a host without a keyring.
        pub absent: bool,
    }

    impl FakeKeyring {
        fn kept(
            &self,
        ) -> Result<std::sync::MutexGuard<'_, BTreeMap<String, SecretValue>>, KeyringError>
        {
            match self.absent {
                true => Err(KeyringError::None(std::io::ErrorKind::Unsupported.into())),
                false => Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner)),
            }
        }
    }

    impl Keyring for FakeKeyring {
        fn set(&self, name: &str, value: &SecretValue) -> Result<(), KeyringError> {
            self.kept()?.insert(name.to_owned(), value.clone());
            Ok(())
        }

        fn get(&self, name: &str) -> Result<Option<SecretValue>, KeyringError> {
            Ok(self.kept()?.get(name).cloned())
        }

        fn remove(&self, name: &str) -> Result<bool, KeyringError> {
            Ok(self.kept()?.remove(name).is_some())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_keeps_a_value_or_says_that_it_cannot() {
        let name = format!("test-{:016x}", u64::from_ne_bytes(crate::random::bytes()));
        let value = SecretValue::new("a value for a test".into()).unwrap();
        match kernel_set(&name, &value) {
            Ok(()) => {
                assert_eq!(kernel_get(&name).unwrap(), Some(value));
                assert!(kernel_remove(&name).unwrap());
                assert_eq!(kernel_get(&name).unwrap(), None);
                assert!(!kernel_remove(&name).unwrap());
            }
            Err(error) => hothouse_testkit::skip("a kernel keyring", &error.to_string()),
        }
    }
}
