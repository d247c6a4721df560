# Included by the Makefile: benchmarks and studies.
.PHONY: bench study study-quick page notebook

# The last takes minutes and 0.9 GB.
TEXT ?= data/tinyshakespeare.txt
bench: train
	env -u OPENBLAS_CORETYPE ./train bench configs/dk64_scaled.ini
	@if [ -f "$(TEXT)" ]; then \
		for config in shakespeare_cpu shakespeare_baby; do \
			echo; env -u OPENBLAS_CORETYPE ./train bench configs/$$config.ini --set data.corpus="$(TEXT)" || exit; \
		done; \
	else echo "shakespeare_cpu and shakespeare_baby need $(TEXT): run data/get_shakespeare.sh, or say make bench TEXT=FILE"; fi

# The sweeps of docs/results.md, and its tables and pictures. Stopped and started again, they are resumed.
study: train
	configs/study/study.sh
study-quick: train
	configs/study/study.sh --quick
# The pictures need configs/study/requirements.txt: make page PYTHON=...
page:
	$(PYTHON) configs/study/page.py
	$(PYTHON) configs/study/page.py --pictures

# Runs docs/notebook.ipynb, whose outputs are not kept: make notebook PYTHON=... with docs/requirements.txt.
notebook: train
	$(PYTHON) -c 'import nbformat, nbclient; nbclient.execute(nbformat.read("docs/notebook.ipynb", 4), cwd="docs")'
