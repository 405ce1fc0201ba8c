package cedrat.maven;

import cedrat.persist.weave.BuildWeaver;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import org.apache.maven.plugin.AbstractMojo;
import org.apache.maven.plugin.MojoExecutionException;
import org.apache.maven.plugin.MojoFailureException;
import org.apache.maven.plugins.annotations.LifecyclePhase;
import org.apache.maven.plugins.annotations.Mojo;
import org.apache.maven.plugins.annotations.Parameter;
import org.apache.maven.plugins.annotations.ResolutionScope;

/// Weaves the classes of the module in place. The agent then leaves them as they are.
@Mojo(
        name = "weave",
        defaultPhase = LifecyclePhase.PROCESS_CLASSES,
        requiresDependencyResolution = ResolutionScope.COMPILE,
        threadSafe = true)
public final class WeaveMojo extends AbstractMojo {
    /// The arguments of the agent with which the program will run, such as `include=com.acme.model`. By default
    /// those of the resource `META-INF/cedrat/agent.arguments`.
    @Parameter(property = "cedrat.arguments")
    private String arguments;

    /// The folder of the module's class files.
    @Parameter(defaultValue = "${project.build.outputDirectory}")
    private File classes;

    @Parameter(defaultValue = "${project.build.directory}/cedrat/compiled", readonly = true)
    private File originals;

    @Parameter(defaultValue = "${project.compileClasspathElements}", readonly = true)
    private List<String> classPath;

    /// Called by Maven.
    public WeaveMojo() {}

    @Override
    public void execute() throws MojoExecutionException, MojoFailureException {
        if (!classes.isDirectory()) {
            getLog().info("no classes to weave: " + classes + " does not exist");
            return;
        }
        try {
            ArgumentsFile file =
                    new ArgumentsFile(classes.toPath(), originals.toPath().getParent());
            BuildWeaver.Outcome outcome = weave(file.arguments(arguments));
            if (!outcome.failures().isEmpty()) {
                throw new MojoFailureException(String.join("\n", outcome.failures()));
            }
            getLog().info(outcome.summary());
            // An agent that is started by a manifest takes them from the class path.
            file.write(arguments);
        } catch (IOException | UncheckedIOException e) {
            throw new MojoExecutionException("cannot weave the classes in " + classes + ": " + e, e);
        } catch (IllegalArgumentException e) {
            throw new MojoFailureException(e.getMessage(), e);
        }
    }

    private BuildWeaver.Outcome weave(String chosen) throws IOException {
        List<Path> others = classPath.stream()
                .map(Path::of)
                .filter(path -> !path.equals(classes.toPath()))
                .toList();
        return new BuildWeaver(chosen, originals.toPath(), List.of(classes.toPath()), others).weave();
    }
}
