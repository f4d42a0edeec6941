//! The table of applications that Larder runs.

use crate::{
    Snapshot,
    snapshot::{Row, figures},
};

figures! {
    /// An application that Larder runs.
    pub struct App {
        figures {
            /// Processes of the application that are wanted.
            wanted: Gauge "larder_app_processes_wanted", "It is configured: `processes`.";
            /// Processes of the application that run.
            processes: Gauge "larder_app_processes",
                "A reload: new ones run beside the old. Below `larder_app_processes_wanted`: they \
                 end.";
            /// Processes that were started again after they ended by themselves.
            restarts: Counter "larder_app_restarts",
                "They crash, or have a limit of requests of their own: standard error has the \
                 reasons.";
            /// Processes that were replaced: by a reload, their age, or a number of requests.
            replaced: Counter "larder_app_replaced", "Reloads; `max_age`, `max_requests`.";
            /// Starts that failed: the process could not be started, or was not ready in time.
            failures: Counter "larder_app_failures",
                "The command, its user or its limits are wrong: standard error has the reasons.";
            /// 1: its processes end again and again, and are started with waits of up to 10 s.
            failing: Gauge "larder_app_failing", "The application is down: look at its log.";
            /// Resident memory of its processes and of their children; shared pages count for each.
            memory: Gauge "larder_app_resident_memory_bytes",
                "Without an end: it loses memory. `max_age` replaces processes, `limits` ends \
                 them.";
            /// Requests sent to the application.
            requests: Counter "larder_app_requests", "More misses and passed requests.";
            /// Requests sent to the application whose answer has not begun: those beyond the
            /// processes wait for one.
            waiting: Gauge "larder_app_requests_waiting",
                "Above `larder_app_processes`: it is slow, or has too few processes.";
            /// Lines of the application's log that were left out: more than 100 a second.
            lines_dropped: Counter "larder_app_log_lines_dropped", "It says too much.";
        }
        with {
            /// Its name.
            name: String;
            /// The reason for which a process ended last; null: none did.
            reason: Option<String>;
        }
    }
}

impl Row for App {
    const LABELS: &'static [&'static str] = &["app"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.apps.iter().for_each(|row| f(&[&row.name], row));
    }
}
