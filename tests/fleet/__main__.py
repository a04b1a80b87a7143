"""`python -m tests.fleet --table`: fleets at length, through a scheduler and an S3 server that are processes.

    --kills     500 models in and out of S3 with two workers; a worker, the client and the scheduler are killed, and the
                store is shut; with AWS_ENDPOINT_URL on the server there, models of 2 GB among them (`juicefs gateway
                --multi-buckets --keep-etag` does), else on moto's
    --scaling   one worker and two, and what a model costs beyond a rewrite
    --stubs     tasks of a scheduler and rows of a client, at 10^3, 10^4 and 10^5
    --others    100 models by a shell loop, by xargs or GNU parallel, by Olive if it is there, and by a fleet
    --table     all of these
"""

import argparse

from tests.fleet import kills, others, scaling, stubs

PARTS = {"kills": kills, "scaling": scaling, "stubs": stubs, "others": others}


def main() -> None:
    """Run what is asked for."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--table", action="store_true")
    arguments.add_argument("--models", type=int, default=500)
    for name in PARTS:
        arguments.add_argument(f"--{name}", action="store_true")
    given = vars(arguments.parse_args())
    for name, part in PARTS.items():
        if given["table"] or given[name]:
            print(f"\n{name}", flush=True)
            part.run(given["models"])


if __name__ == "__main__":
    main()
