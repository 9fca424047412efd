# Has a service of Python write down which of its lines ran, when it is told to (SIGPWR) and when it ends.
# Python 3.12 can count by itself; before that `coverage` of the project's environment does.
import os
import sys


def _begin(folder, roots):
    import atexit
    import json
    import signal
    import threading

    def own(path):
        return path.startswith(roots) and "/site-packages/" not in path and "/.venv/" not in path

    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        ran, codes = {}, {}

        def begun(code, offset):
            if own(code.co_filename):
                codes.setdefault(code.co_filename, set()).add(code)
            return monitoring.DISABLE

        def line(code, number):
            if own(code.co_filename):
                ran.setdefault(code.co_filename, set()).add(number)
            return monitoring.DISABLE

        tool = next(number for number in (monitoring.COVERAGE_ID, 3, 4, 5) if monitoring.get_tool(number) is None)
        monitoring.use_tool_id(tool, "hothouse")
        monitoring.register_callback(tool, monitoring.events.PY_START, begun)
        monitoring.register_callback(tool, monitoring.events.LINE, line)
        monitoring.set_events(tool, monitoring.events.PY_START | monitoring.events.LINE)

        def lines_of(code, all_lines):
            all_lines.update(number for _, _, number in code.co_lines() if number)
            for constant in code.co_consts:
                if hasattr(constant, "co_lines"):
                    # The line of the definition belongs to what is around it.
                    lines_of(constant, all_lines)

        def look():
            found = {}
            for path, known in list(codes.items()):
                possible = set()
                for code in list(known):
                    lines_of(code, possible)
                seen = set(ran.get(path, ()))
                found[path] = {"ran": sorted(seen), "idle": sorted(possible - seen)}
            return found
    else:
        import coverage

        measuring = coverage.Coverage(data_file=None, config_file=False, messages=False)
        measuring.start()

        def look():
            found, data = {}, measuring.get_data()
            for path in data.measured_files():
                if own(path):
                    _, possible, _, idle, _ = measuring.analysis2(path)
                    found[path] = {"ran": sorted(set(possible) - set(idle)), "idle": idle}
            return found

    turn = threading.Lock()

    def write(*_):
        if not turn.acquire(blocking=False):
            return
        try:
            temporary = f"{folder}/python/.{os.getpid()}"
            with open(temporary, "w") as file:
                json.dump(look(), file)
            os.replace(temporary, f"{folder}/python/{os.getpid()}.json")
            open(f"{folder}/done/{os.getpid()}", "w").close()
        except Exception:
            pass
        finally:
            turn.release()

    def announce():
        open(f"{folder}/pids/{os.getpid()}", "w").close()

    for name in ("pids", "done", "python"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    signal.signal(signal.SIGPWR, write)
    os.register_at_fork(after_in_child=announce)
    atexit.register(write)
    announce()


def _main():
    folder, roots = os.environ.get("HOTHOUSE_COVERAGE"), os.environ.get("HOTHOUSE_COVERAGE_ROOTS", "")
    if folder and roots:
        try:
            _begin(folder, tuple(root + "/" for root in roots.split(":")))
        except Exception:
            pass
    # The module of this name that would have been found is not to be missed.
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(__file__)
    sys.path[:] = [path for path in sys.path if path != here]
    found = PathFinder.find_spec("sitecustomize", sys.path)
    if found is not None and found.loader is not None:
        found.loader.exec_module(module_from_spec(found))


_main()
