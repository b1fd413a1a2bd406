"""When Spark's JVM starts without Spark's launcher, and that its command line is then the launcher's."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from ingester.spark.conf import spark_settings
from ingester.spark.java import java_home
from ingester.spark.jvm import java_binary, spark_home
from ingester.spark.launch import argument_file, class_path, java_options, plain

_DROPPED = {"--add-modules=jdk.incubator.vector", "-Dderby.connection.requireAuthentication=false"}
"""Of Spark's libraries for machine learning and for SQL, which DStream does not use."""


def options(**conf: str) -> list[str]:
    named = {name.replace("_", "."): value for name, value in conf.items()}
    settings = spark_settings("local[2]", named, local_dir=Path("/s"), log4j=Path("/l"))
    return java_options(settings, class_path(Path("/spark"), ["b.jar", "slf4j-api-2.0.jar", "a.jar", "folder"]))


def test_a_local_master_without_settings_of_the_launcher_is_plain() -> None:
    assert plain(
        "local[2]", {"spark.driver.memory": "1g", "spark.ui.enabled": "true"}, {"PATH": "/bin", "SPARK_USER": "me"}
    )


@pytest.mark.parametrize(
    ("master", "conf", "environment", "files"),
    [
        ("spark://one:7077", {}, {}, []),
        ("k8s://https://one", {}, {}, []),
        ("yarn", {}, {}, []),
        ("local[2]", {"spark.driver.extraClassPath": "/jars"}, {}, []),
        ("local[2]", {"spark.driver.extraJavaOptions": "-Xss1m"}, {}, []),
        ("local[2]", {"spark.driver.defaultJavaOptions": "-Xss1m"}, {}, []),
        ("local[2]", {"spark.driver.extraLibraryPath": "/lib"}, {}, []),
        ("local[2]", {}, {"SPARK_SUBMIT_OPTS": "-Dx=y"}, []),
        ("local[2]", {}, {"SPARK_CONF_DIR": "/etc/spark"}, []),
        ("local[2]", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}, []),
        ("local[2]", {}, {"PYSPARK_SUBMIT_ARGS": "--packages a:b:1 pyspark-shell"}, []),
        ("local[2]", {}, {}, ["spark-env.sh"]),
        ("local[2]", {}, {}, ["log4j2.properties", "spark-defaults.conf"]),
    ],
)
def test_whatever_only_the_launcher_knows_is_left_to_it(
    master: str, conf: dict[str, str], environment: dict[str, str], files: list[str]
) -> None:
    assert not plain(master, conf, environment, files)


def test_the_class_path_has_one_order_and_begins_with_the_jar_that_must_be_first() -> None:
    assert options()[:2] == ["-cp", "/spark/jars/slf4j-api-2.0.jar:/spark/jars/a.jar:/spark/jars/b.jar"]


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ("512m", "-Xmx512m"),
        ("2G", "-Xmx2g"),
        ("1gb", "-Xmx1g"),
        ("700", "-Xmx700m"),
        ("536870912b", "-Xmx524288k"),
    ],
)
def test_memory_is_read_as_spark_reads_it(given: str, limit: str) -> None:
    assert options(spark_driver_memory=given)[2] == limit


@pytest.mark.parametrize("given", ["700", "1gb", "536870912B", " 600M "])
def test_sparks_launcher_gets_memory_as_java_reads_it(given: str) -> None:
    """It puts the text behind -Xmx as it is."""
    settings = spark_settings(
        "k8s://https://one", {"spark.driver.memory": given}, local_dir=Path("/s"), log4j=Path("/l")
    )
    assert re.fullmatch("[0-9]+[kmgt]", settings["spark.driver.memory"])


def test_a_file_of_arguments_keeps_blanks_quotes_and_backslashes() -> None:
    assert argument_file(["-Da=b c", 'q"', "x\\y"]) == '"-Da=b c"\n"q\\""\n"x\\\\y"\n'


def test_the_options_are_those_of_sparks_launcher() -> None:
    if java_home() is not None and "JAVA_HOME" not in os.environ:
        pytest.skip("the machine has no Java of its own")
    home = spark_home()
    ran = subprocess.run(
        [
            *(str(java_binary()), "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"),
            *("org.apache.spark.deploy.SparkSubmit", "--conf", "spark.driver.memory=512m", "pyspark-shell"),
        ],
        env={"PATH": os.environ["PATH"], "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    built = [part for part in ran.stdout.split("\0") if part.strip()]
    theirs = {part for part in built[: built.index("org.apache.spark.deploy.SparkSubmit")] if part.startswith("-")}
    ours = {part for part in options() if part.startswith("-")}
    assert theirs - _DROPPED <= ours


def test_what_pyspark_sets_in_an_ingester_does_not_keep_the_process_beside_it_from_making_an_archive() -> None:
    assert plain("local[2]", {}, {"SPARK_AUTH_SOCKET_TIMEOUT": "15", "SPARK_BUFFER_SIZE": "65536"})


def test_a_folder_for_temporary_files_with_a_blank_is_one_option() -> None:
    settings = spark_settings("local", {}, local_dir=Path("/s"), log4j=Path("/l"), temporary=Path("/t mp"))
    assert "-Djava.io.tmpdir=/t mp" in java_options(settings, [])
