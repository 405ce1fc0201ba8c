//! Threads: of the system, or, if a thread of a scheduled run creates them, of that run.

use super::run::{is_scheduled, name_thread, waiting};
use std::io;
use std::panic::Location;
use std::thread as os;

pub use std::thread::{Result, panicking};

/// A thread factory.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// Creates a factory of threads without a name.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the thread.
    #[must_use]
    pub fn name(self, name: String) -> Builder {
        Builder { name: Some(name) }
    }

    /// Spawns the thread.
    ///
    /// # Errors
    /// The error of the operating system if it cannot create a thread.
    pub fn spawn<T: Send + 'static>(self, body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
        if !is_scheduled() {
            let builder = self.name.into_iter().fold(os::Builder::new(), os::Builder::name);
            return Ok(JoinHandle(Which::System(builder.spawn(body)?)));
        }
        let builder = self.name.iter().cloned().fold(shuttle::thread::Builder::new(), shuttle::thread::Builder::name);
        let handle = builder.spawn(body)?;
        if let Some(name) = self.name {
            name_thread(handle.thread().id().into(), name);
        }
        Ok(JoinHandle(Which::Scheduled(handle)))
    }
}

/// One of two forms of a thing.
#[derive(Debug)]
enum Which<S, R> {
    System(S),
    Scheduled(R),
}

/// The right to wait for the end of a thread.
#[derive(Debug)]
pub struct JoinHandle<T>(Which<os::JoinHandle<T>, shuttle::thread::JoinHandle<T>>);

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// The panic of the thread.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        match self.0 {
            Which::System(handle) => handle.join(),
            Which::Scheduled(handle) => joined(|| handle.join()),
        }
    }

    /// Returns the thread.
    pub fn thread(&self) -> Thread {
        let (id, name) = match &self.0 {
            Which::System(handle) => (Identity::System(handle.thread().id()), handle.thread().name()),
            Which::Scheduled(handle) => (Identity::Scheduled(handle.thread().id()), handle.thread().name()),
        };
        Thread { id: ThreadId(id), name: name.map(str::to_string) }
    }

    /// Whether the thread has ended; within a scheduled run always `false`, a hint only.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Which::System(handle) => handle.is_finished(),
            Which::Scheduled(_) => false,
        }
    }
}

#[track_caller]
fn joined<R>(join: impl FnOnce() -> R) -> R {
    waiting(0, "the end of a thread", Location::caller(), join)
}

/// Spawns a thread.
///
/// # Panics
/// If the system cannot create one.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).expect("a thread can be created")
}

/// Threads that borrow from the function that spawns them.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'scope, 'env: 'scope>(ScopeOf<'scope, 'env>);

#[derive(Clone, Copy, Debug)]
enum ScopeOf<'scope, 'env: 'scope> {
    System(&'scope os::Scope<'scope, 'env>),
    Scheduled(&'scope shuttle::thread::Scope<'scope, 'env>),
}

/// The right to wait for the end of a thread of a [`Scope`].
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T>(
    Which<os::ScopedJoinHandle<'scope, T>, shuttle::thread::ScopedJoinHandle<'scope, T>>,
);

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// The panic of the thread.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        match self.0 {
            Which::System(handle) => handle.join(),
            Which::Scheduled(handle) => joined(|| handle.join()),
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a thread.
    pub fn spawn<T: Send + 'scope>(self, body: impl FnOnce() -> T + Send + 'scope) -> ScopedJoinHandle<'scope, T> {
        ScopedJoinHandle(match self.0 {
            ScopeOf::System(scope) => Which::System(scope.spawn(body)),
            ScopeOf::Scheduled(scope) => Which::Scheduled(scope.spawn(body)),
        })
    }
}

/// Runs `body`, and waits for the threads that it has spawned.
pub fn scope<'env, T>(body: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> T) -> T {
    if is_scheduled() {
        shuttle::thread::scope(|scope| body(Scope(ScopeOf::Scheduled(scope))))
    } else {
        os::scope(|scope| body(Scope(ScopeOf::System(scope))))
    }
}

/// Spawns a thread within `scope`. Plain spawning panics where this returns an error.
///
/// # Errors
/// The error of the operating system if it cannot create a thread.
pub fn spawn_in<'scope, T: Send + 'scope>(
    scope: Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Ok(match scope.0 {
        ScopeOf::System(scope) => {
            ScopedJoinHandle(Which::System(os::Builder::new().name(name.into()).spawn_scoped(scope, body)?))
        }
        ScopeOf::Scheduled(scope) => ScopedJoinHandle(Which::Scheduled(scope.spawn(body))),
    })
}

/// Identity of a thread, of the system or of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(Identity);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Identity {
    System(os::ThreadId),
    Scheduled(shuttle::thread::ThreadId),
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Thread {
    id: ThreadId,
    name: Option<String>,
}

impl Thread {
    /// Returns its identity.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// Returns its name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// Returns the calling thread.
pub fn current() -> Thread {
    let (id, name) = match is_scheduled() {
        true => {
            let thread = shuttle::thread::current();
            (Identity::Scheduled(thread.id()), thread.name().map(str::to_string))
        }
        false => {
            let thread = os::current();
            (Identity::System(thread.id()), thread.name().map(str::to_string))
        }
    };
    Thread { id: ThreadId(id), name }
}

/// Lets another thread run.
pub fn yield_now() {
    match is_scheduled() {
        true => shuttle::thread::yield_now(),
        false => os::yield_now(),
    }
}

/// Returns the number of threads that run at the same time, at least 1: within a scheduled run a constant, so that schedules
/// repeat on any machine.
pub fn parallelism() -> usize {
    if is_scheduled() { 4 } else { crate::real::thread::parallelism() }
}

/// A variable of which each thread, of the system or of a run, has its own.
#[derive(Debug)]
pub struct LocalKey<T: 'static> {
    system: &'static os::LocalKey<T>,
    scheduled: shuttle::thread::LocalKey<T>,
}

impl<T: 'static> LocalKey<T> {
    /// For the macro `thread_local!`.
    #[doc(hidden)]
    pub const fn new(system: &'static os::LocalKey<T>, init: fn() -> T) -> LocalKey<T> {
        LocalKey { system, scheduled: shuttle::thread::LocalKey { init, _p: std::marker::PhantomData } }
    }

    /// Passes the variable of this thread to `act`.
    ///
    /// # Panics
    /// If the thread has dropped it.
    pub fn with<R>(&'static self, act: impl FnOnce(&T) -> R) -> R {
        match is_scheduled() {
            true => self.scheduled.with(act),
            false => self.system.with(act),
        }
    }
}

/// Declares variables of which each thread has its own; the interface of the standard library's macro.
#[doc(hidden)]
#[macro_export]
macro_rules! local_of_both {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const { $init:expr } $(; $($rest:tt)*)?) => {
        $(#[$attr])*
        $vis static $name: $crate::thread::LocalKey<$t> = {
            ::std::thread_local! { static SYSTEM: $t = const { $init }; }
            $crate::thread::LocalKey::new(&SYSTEM, || $init)
        };
        $($crate::local_of_both! { $($rest)* })?
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$attr])*
        $vis static $name: $crate::thread::LocalKey<$t> = {
            ::std::thread_local! { static SYSTEM: $t = $init; }
            $crate::thread::LocalKey::new(&SYSTEM, || $init)
        };
        $($crate::local_of_both! { $($rest)* })?
    };
}
