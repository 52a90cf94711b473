"""Sphinx configuration; ``make docs`` builds the site, which needs no network to be read."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

from bihm_repro import __version__  # noqa: E402

project = "bihm-repro"
author = "the bihm-repro authors"
copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "mathml",
    "generated_pages",
]
exclude_patterns = ["_build", "_ext", "jupyter_execute"]
html_theme = "furo"
html_title = f"bihm-repro {__version__}"
html_math_renderer = "mathml"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_extra_path = ["../results/gallery/demo.html"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # lines such as "compiling the update"
nb_ipywidgets_js: dict[str, dict] = {}  # the default loads scripts from the network

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
napoleon_custom_sections = [("What a subclass must give", "params_style")]
