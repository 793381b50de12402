//! The program: parse the command line, dispatch.

fn main() -> std::process::ExitCode {
    steadyhand::cli::run()
}
