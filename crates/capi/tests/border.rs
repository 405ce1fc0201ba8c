//! Tests of the interface by C programs: they are compiled against the installed library and run.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;

use serde_json::Value;

const STRICT: [&str; 6] = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn root() -> PathBuf {
    here().join("../..")
}

/// Runs a command that must succeed.
#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

/// Builds the library as a user would, because tests of a package do not build the C libraries; returns its directory.
fn built() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--offline", "-p", "cedrat-capi", "--message-format=json"]).current_dir(root());
    let output = run(&mut cargo);
    let messages = String::from_utf8(output.stdout).expect("cargo prints text");
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files = messages
        .filter(|message| message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "cdylib")))
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let library = files.filter_map(|file| file.as_str().map(PathBuf::from)).find(|file| file.ends_with("libcedrat.so"));
    library.expect("a shared library").parent().expect("it lies somewhere").to_path_buf()
}

/// Installs the library, once for all tests, and returns the prefix.
fn installed() -> &'static Path {
    static INSTALLED: Once = Once::new();
    let prefix = Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/installed"));
    INSTALLED.call_once(|| {
        run(Command::new(here().join("install")).arg(built()).arg(prefix));
    });
    prefix
}

/// Compiles a program of `tests/c` and runs it with a directory for its store.
#[track_caller]
fn holds(name: &str) {
    runs(&here().join("tests/c").join(name).with_extension("c"));
}

/// Compiles a program and runs it with a directory for its store.
#[track_caller]
fn runs(source: &Path) {
    runs_with(source, &[], &[]);
}

/// Runs a program as `runs` does, with additional compiler flags and environment variables.
#[track_caller]
fn runs_with(source: &Path, flags: &[&str], environment: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a directory");
    let mut program = Command::new(compiled(source, flags, folder.path()));
    run(program.arg(folder.path().join("store")).envs(environment.iter().copied()));
}

/// Compiles a program against the installed library; returns its path.
#[track_caller]
fn compiled(source: &Path, flags: &[&str], folder: &Path) -> PathBuf {
    let prefix = installed();
    let (lib, program) = (prefix.join("lib"), folder.join("program"));
    let mut cc = Command::new("cc");
    cc.args(STRICT).args(flags).arg("-I").arg(prefix.join("include")).arg("-I").arg(here().join("tests/c"));
    cc.arg("-o").arg(&program).arg(source);
    cc.arg("-L").arg(&lib).args(["-lcedrat", "-lpthread"]).arg(format!("-Wl,-rpath,{}", lib.display()));
    run(&mut cc);
    program
}

#[test]
fn errors_are_returned_and_change_nothing() {
    holds("errors");
}

#[test]
fn transactions_conflict_nest_and_end_with_threads() {
    holds("conflicts");
}

/// E9.1, E9.9.
#[test]
fn two_phase_transactions_await_their_outcome() {
    holds("prepared");
}

/// E17.5.
#[test]
fn plain_blocks_are_atomic_and_pointers_survive() {
    holds("plain");
}

/// E18.1.
#[test]
fn backups_run_beside_transactions() {
    holds("backup");
}

/// E18.10, E18.12.
#[test]
fn backups_are_restored_to_moments() {
    holds("archive");
}

/// E18.18, E18.21, E18.22.
#[test]
fn increments_streams_and_views_are_read() {
    holds("increments");
}

/// E23.1, E23.3, E23.4.
#[test]
fn changes_are_delivered_to_c_programs() {
    holds("changes");
}

/// E24.3, E24.4.
#[test]
fn encrypted_store_opens_with_key() {
    holds("encrypted");
}

#[test]
fn after_a_failed_flush_nothing_is_acknowledged() {
    holds("stopped");
}

/// R7.
#[test]
fn store_without_threads_counts_them() {
    // No stack of this size fits the memory.
    let too_large = (1_u64 << 60).to_string();
    runs_with(&here().join("tests/c/threadless.c"), &[], &[("RUST_MIN_STACK", &too_large)]);
}

#[test]
fn standalone_log_keeps_forced_entries() {
    holds("log");
}

#[test]
fn graph_keeps_commits_and_reports_errors() {
    holds("graph");
}

#[test]
fn objects_records_and_words_share_one_transaction() {
    holds("faces");
}

/// The complete examples of docs/use/c.md: concatenated they form a program.
#[test]
fn the_examples_on_records_and_objects_run() {
    let page = std::fs::read_to_string(root().join("docs/use/c.md")).expect("the page");
    let (_, page) = page.split_once("\n## Records\n").expect("where they begin");
    let (page, _) = page.split_once("\n## A log alone\n").expect("and end");
    let examples: Vec<&str> =
        page.split("```c\n").skip(1).map(|rest| rest.split("```").next().expect("its end")).collect();
    assert_eq!(examples.len(), 3);
    let program = format!(
        "#include \"check.h\"\nint main(int count_of, char **arguments) {{\nCHECK(count_of == 2);\n\
         cedrat_store *store = open_store(arguments[1]);\n\
         cedrat_heap *heap = create_heap(store, \"shop\", 1 << 20, 0);\n{}\n\
         CHECK(count == 0 && size == 16 && memcmp(buffer + 8, &value, 8) == 0);\n\
         OK(cedrat_graph_get_root(graph, \"first\", &root));\nCHECK(root == object);\n\
         cedrat_graph_close(graph);\nOK(cedrat_close(store));\nreturn 0;\n}}\n",
        examples.concat()
    );
    let folder = tempfile::tempdir().expect("a directory");
    let source = folder.path().join("examples.c");
    std::fs::write(&source, program).expect("room");
    runs(&source);
}

#[test]
fn macro_header_alone_ports_stm_program() {
    holds("ported");
}

#[test]
fn loop_of_small_transactions_terminates() {
    holds("speed");
}

/// H5.
#[test]
fn inline_words_keep_promises_of_calls() {
    holds("inline");
}

/// H5, under the sanitizers for addresses and undefined behaviour. Leaks are not checked: allocations of the library belong
/// to it.
#[test]
fn inline_words_are_clean_under_sanitizers() {
    let source = here().join("tests/c/inline.c");
    let options = "detect_leaks=0:abort_on_error=1";
    runs_with(
        &source,
        &["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        &[("ASAN_OPTIONS", options)],
    );
}

/// With `ulimit -v` at 2 GiB.
#[test]
fn limited_address_space_opens_smaller_store() {
    holds("limited");
}

/// Under memcheck, with no suppressions: no invalid access, no use of uninitialised memory, no block that nothing refers to.
#[test]
fn valgrind_finds_no_errors() {
    under_valgrind("unlimited");
}

/// With `ulimit -v` at 8 GiB, of which valgrind needs a part itself.
#[test]
fn limited_valgrind_finds_no_errors() {
    under_valgrind("8388608");
}

#[track_caller]
fn under_valgrind(address_space: &str) {
    let folder = tempfile::tempdir().expect("a directory");
    let program = compiled(&here().join("tests/c/memory.c"), &["-g"], folder.path());
    let script = r#"ulimit -v "$1" && shift && exec valgrind "$@""#;
    let mut valgrind = Command::new("sh");
    valgrind.args(["-c", script, "sh", address_space, "--quiet", "--error-exitcode=9", "--leak-check=full"]);
    valgrind.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
    run(valgrind.arg(program).arg(folder.path().join("store")));
}

/// E16.4, E1.11.
#[test]
fn lacking_descriptors_harm_no_store() {
    holds("descriptors");
}

/// E1.11: no file that can be written has a standard descriptor, not even between two system calls.
#[test]
fn closed_descriptors_are_not_written() {
    let folder = tempfile::tempdir().expect("a directory");
    let program = compiled(&here().join("tests/c/descriptors.c"), &[], folder.path());
    let trace = folder.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=openat", "-o"]).arg(&trace);
    run(strace.arg(program).arg(folder.path().join("store")));
    let trace = std::fs::read_to_string(trace).expect("what strace has written");
    let is_standard = |line: &&str| [" = 0", " = 1", " = 2"].iter().any(|end| line.ends_with(end));
    let opened: Vec<&str> = trace.lines().filter(|line| line.contains("openat(")).filter(is_standard).collect();
    assert!(opened.len() > 10, "the standard descriptors were closed: {opened:?}");
    for line in opened {
        let is_writable = ["O_RDWR", "O_WRONLY", "O_CREAT"].iter().any(|flag| line.contains(flag));
        assert!(!is_writable, "{line}");
    }
}

#[test]
fn locked_memory_is_taken_as_needed() {
    holds("locked");
}

/// E1.8, E1.9, W3, H1, H2.
#[test]
fn random_calls_damage_nothing() {
    holds("call_order");
}

/// E1.9.
#[test]
fn forked_child_changes_no_file() {
    holds("forked");
}

/// E1.9d.
#[test]
fn child_of_busy_process_awaits_nothing() {
    holds("forked_busy");
}

/// E1.9e, E1.9f.
#[test]
fn child_keeps_its_own_memory() {
    holds("forked_memory");
}

#[test]
fn cancelled_thread_completes_its_calls() {
    holds("cancelled");
}

#[test]
fn volatile_heaps_and_plain_stores_keep_promises() {
    holds("volatile");
}

/// Each header compiles alone, in each language that may include it.
#[test]
fn headers_compile_in_c_and_in_cpp() {
    let folder = tempfile::tempdir().expect("a directory");
    for (compiler, standard, ending) in [
        ("cc", "-std=c99", "c"),
        ("cc", "-std=c11", "c"),
        ("cc", "-std=gnu17", "c"),
        ("c++", "-std=c++11", "cc"),
        ("c++", "-std=c++17", "cc"),
    ] {
        for header in ["cedrat.h", "cedrat_stm.h"] {
            let source = folder.path().join(format!("alone.{ending}"));
            let text = format!("#include <{header}>\n#include <{header}>\ncedrat_options options;\n");
            std::fs::write(&source, text).expect("room");
            let mut command = Command::new(compiler);
            command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-o"]);
            command.arg(folder.path().join("alone.o")).arg(&source).arg("-I").arg(root().join("include"));
            run(&mut command);
        }
    }
}

/// Returns the names beginning with `cedrat_` that a header declares or calls, outside of comments.
fn functions_declared(header: &str) -> BTreeSet<String> {
    let mut code = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        code += before;
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    code += rest;
    let name = |before: &str| before.rsplit([' ', '*', '\n']).next().map(String::from);
    // Inline functions of the header are not functions of the library.
    let inline = code.lines().filter_map(|line| name(line.strip_prefix("static inline")?.split('(').next()?));
    let inline: BTreeSet<String> = inline.collect();
    // The name of a type of functions stands in parentheses.
    let called = code.split('(').filter_map(name).filter(|name| !name.ends_with(')'));
    called.filter(|name| name.starts_with("cedrat_") && !inline.contains(name)).collect()
}

#[test]
fn header_declares_exactly_the_exports() {
    let library = installed().join("lib/libcedrat.so");
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let symbols = String::from_utf8(output.stdout).expect("nm prints text");
    let exported: BTreeSet<String> =
        symbols.lines().filter_map(|line| line.split(' ').next_back()).map(String::from).collect();
    let header = std::fs::read_to_string(root().join("include/cedrat.h")).expect("the header");
    let declared = functions_declared(&header);
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(exported, declared);
}

/// Returns the names of the sections of an object file or of the members of an archive.
fn sections(file: &Path) -> Vec<String> {
    let output = run(Command::new("readelf").args(["-S", "-W"]).arg(file));
    let table = String::from_utf8(output.stdout).expect("readelf prints text");
    table.split_whitespace().filter(|word| word.starts_with('.')).map(String::from).collect()
}

#[test]
fn installed_libraries_have_debug_information_apart() {
    let lib = installed().join("lib");
    let is_debug = |section: &String| section.starts_with(".debug_");
    for library in ["libcedrat.so", "libcedrat.a"] {
        let found = sections(&lib.join(library));
        assert!(found.len() > 10 && !found.iter().any(is_debug), "{library}: {found:?}");
    }
    assert!(sections(&lib.join("libcedrat.so")).contains(&".gnu_debuglink".to_string()));
    let version = concat!(env!("CARGO_PKG_VERSION"), ".debug");
    let apart = lib.join(".debug").join(format!("libcedrat.so.{version}"));
    assert!(sections(&apart).contains(&".debug_line".to_string()), "{}", apart.display());
}

/// The numbers of the header are those of the library, which defines the names.
#[test]
fn header_status_numbers_match_library() {
    let header = std::fs::read_to_string(root().join("include/cedrat.h")).expect("the header");
    let source = std::fs::read_to_string(here().join("src/status.rs")).expect("a module");
    let numbers = header.lines().filter_map(|line| line.trim().split_once(" = "));
    let statuses: Vec<(&str, usize)> = numbers
        .filter(|(name, _)| name.starts_with("CEDRAT_"))
        .map(|(name, number)| (name, number.trim_end_matches(',').parse().expect("a number")))
        .take_while(|(name, _)| *name != "CEDRAT_SYNC")
        .collect();
    let named: Vec<&str> = source.split("c\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(statuses.len(), named.len());
    for (name, number) in statuses {
        assert_eq!(named[number], name);
    }
}

/// `examples/c`, built as its readers do: by pkg-config, and by variables; and with the static library.
#[test]
fn killed_c_bank_passes_audit() {
    let (prefix, folder) = (installed(), tempfile::tempdir().expect("a directory"));
    for file in ["Makefile", "bank.c"] {
        std::fs::copy(root().join("examples/c").join(file), folder.path().join(file)).expect("the example");
    }
    let make = |arguments: &[String]| run(Command::new("make").args(arguments).current_dir(folder.path()));
    let found_by = format!("PKG_CONFIG_PATH={}", prefix.join("lib/pkgconfig").display());
    let output = make(&["check".into(), found_by]);
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(said.matches("all is there").count(), 5, "{said}");
    make(&["clean".into()]);
    let include = format!("CEDRAT_CFLAGS=-I{}", prefix.join("include").display());
    let library = prefix.join("lib/libcedrat.a");
    let linked = format!("CEDRAT_LIBS={} -lgcc_s -lm -ldl", library.display());
    make(&["bank".into(), "PKG_CONFIG=false".into(), include, linked]);
    run(Command::new(folder.path().join("bank")).args(["static.store", "1"]).current_dir(folder.path()));
}
