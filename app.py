"""The CDK app: `cdk deploy --all -c env=dev`, or `python app.py -c env=dev` to synthesize without the CLI."""

import sys

from stacks.assembly import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
