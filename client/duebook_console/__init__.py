"""The console: a web page on this machine for the people who run Duebook.

It calls the API with the operator's own AWS credentials, so nothing new faces the internet. `app` wires the pages,
`guard` keeps strangers out, `reads` fetches what a page shows in a bounded number of calls, and `timeline`, `steps` and
`chart` turn that into what the templates print.
"""
