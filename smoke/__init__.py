"""`make smoke`: whether a deployment really works, on its own account, in minutes.

`stories.py` plays the end-to-end stories on short deadlines through the API, `probes.py` asks AWS what its
documentation leaves open, `runner.py` runs both at once, and `deployment.py` is what they are played on.
"""
